//! Names for the stacks that a service sends as addresses.
//!
//! ```text
//!  stack: build id + offset --> cache --> file of the module --> child process --> names
//!                                         (files)                (child, names)
//! ```
//!
//! [`fold`] then tells whose code it is, and [`progress`] whether the thread moved between two stacks. The first naming of
//! a build takes some 100 ms, so it is done when a snapshot is on disk already, on a thread that may wait.

mod child;
mod crates;
mod files;
pub mod fold;
mod names;
pub mod progress;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use ax_wire::stack::{Frame, Function, Module, ThreadStack};

use self::{child::ChildError, files::FileError, names::Names};
pub use self::{child::child_main, crates::without_home};

/// Most addresses whose names are kept, at some 300 bytes each; then all are forgotten.
const MAX_CACHED: usize = 16_384;

/// Most addresses of a module that one child is asked for: they stand on its command line.
const MAX_ADDRESSES: usize = 4_096;

/// The program that runs. Not the path of its file, which an update replaces.
pub const OWN_PROGRAM: &str = "/proc/self/exe";

/// Gives names to stacks. Safe to share between threads.
pub struct Symbolizer {
    program: PathBuf,
    cache: Mutex<HashMap<Address, Vec<Function>>>,
}

/// The same on every machine that has this build.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Address {
    build_id: String,
    offset: u64,
}

#[derive(Debug, thiserror::Error)]
enum Unnamed {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Child(#[from] ChildError),
}

/// Where a module's file comes from.
#[derive(Clone, Copy)]
enum Origin<'a> {
    /// The process that has mapped it.
    Process(u32),
    /// This host, under the path that it had where the service ran.
    Here,
    /// A file that a person has named.
    Named(&'a Path),
}

impl Symbolizer {
    /// Starts `program` for each file: one whose `main` begins with [`child_main`], such as [`OWN_PROGRAM`].
    #[must_use]
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            cache: Mutex::default(),
        }
    }

    /// Names the frames of stacks of the process `pid`, in place. Where a module gives no names,
    /// [`Module::unnamed`] says why.
    ///
    /// Blocks: some 100 ms for a build that is new, 10 s for each module at worst.
    pub fn name(&self, pid: u32, stacks: &mut [ThreadStack]) {
        for module in modules_of(stacks) {
            self.name_module(Origin::Process(pid), &module, stacks);
        }
    }

    /// Names the frames of modules that nobody could name when the snapshot was written, in place, though their process may
    /// be gone: from the files that have the modules' paths on this host, and the same build ids. Where there is none,
    /// [`Module::unnamed`] says why.
    ///
    /// Blocks as [`name`](Self::name) does.
    pub fn name_here(&self, stacks: &mut [ThreadStack]) {
        for module in modules_of(stacks) {
            if frames_of(&module, stacks).all(|frame| frame.functions.is_empty()) {
                self.name_module(Origin::Here, &module, stacks);
            }
        }
    }

    /// Names the frames of those modules whose build id is that of `binary`, or whose separate debug file it is. Returns
    /// how many of the frames that are in such a module have a name now, and how many there are.
    ///
    /// Blocks as [`name`](Self::name) does.
    ///
    /// # Errors
    ///
    /// Why the file gives no names, for a person.
    pub fn name_with(
        &self,
        binary: &Path,
        stacks: &mut [ThreadStack],
    ) -> Result<(usize, usize), String> {
        let mut refused = BTreeSet::new();
        let mut fits = Vec::new();
        for module in modules_of(stacks) {
            if module.build_id.is_none() {
                continue;
            }
            match self.name_module(Origin::Named(binary), &module, stacks) {
                None => fits.push(module),
                Some(why) => {
                    refused.insert(why);
                }
            }
        }
        if fits.is_empty() && refused.is_empty() {
            return Err("no module of the stacks has a build id to compare".to_owned());
        }
        if fits.is_empty() {
            let refused: Vec<_> = refused.into_iter().collect();
            return Err(refused.join("; "));
        }
        let of_it = fits.iter().flat_map(|module| frames_of(module, stacks));
        let (named, unnamed): (Vec<_>, Vec<_>) =
            of_it.partition(|frame| !frame.functions.is_empty());
        Ok((named.len(), named.len() + unnamed.len()))
    }

    /// Returns why the module has no names, where it has none.
    fn name_module(
        &self,
        origin: Origin<'_>,
        module: &Module,
        stacks: &mut [ThreadStack],
    ) -> Option<String> {
        // A file that a person names is read in any case: it is to be told when it is the wrong one.
        let again = matches!(origin, Origin::Named(_));
        let wanted: BTreeSet<u64> = frames_of(module, stacks)
            .filter(|frame| again || frame.functions.is_empty())
            .map(|frame| frame.offset)
            .filter(|offset| again || self.cached(module, *offset).is_none())
            .take(MAX_ADDRESSES)
            .collect();
        let wanted: Vec<u64> = wanted.into_iter().collect();
        let mut found = HashMap::new();
        let mut why = None;
        if !wanted.is_empty() {
            match self.read(origin, module, &wanted) {
                Ok(names) => found.extend(wanted.into_iter().zip(names.functions)),
                Err(error) => why = Some(error.to_string()),
            }
        }
        self.remember(module, &found);
        for stack in stacks.iter_mut() {
            let Some(index) = stack
                .modules
                .iter()
                .position(|known| is_same(known, module))
            else {
                continue;
            };
            if why.is_none() || !again {
                stack.modules[index].unnamed.clone_from(&why);
            }
            for frame in &mut stack.frames {
                if frame.module != Some(index as u32) {
                    continue;
                }
                let known = found.get(&frame.offset).cloned();
                let known = known.or_else(|| self.cached(module, frame.offset));
                if let Some(functions) = known.filter(|functions| !functions.is_empty()) {
                    frame.functions = functions;
                }
            }
        }
        why
    }

    /// Reads the module's own file, then, where that has no line tables, a separate one.
    fn read(&self, origin: Origin<'_>, module: &Module, wanted: &[u64]) -> Result<Names, Unnamed> {
        let (file, pid) = match origin {
            Origin::Process(pid) => (files::open_mapped(pid, module)?, Some(pid)),
            Origin::Here => (files::open_here(module)?, None),
            Origin::Named(path) => (files::open_named(path)?, None),
        };
        let build_id = module.build_id.as_deref();
        let mut names = child::read(&self.program, file, build_id, wanted)?;
        // What cannot be compared is not read.
        if names.has_lines || build_id.is_none() {
            return Ok(names);
        }
        for file in files::debug_files(pid, module, names.debug_file.as_deref()) {
            let Ok(better) = child::read(&self.program, file, build_id, wanted) else {
                continue;
            };
            for (functions, better) in names.functions.iter_mut().zip(better.functions) {
                if !better.is_empty() {
                    *functions = better;
                }
            }
            if better.has_lines {
                break;
            }
        }
        Ok(names)
    }

    fn cached(&self, module: &Module, offset: u64) -> Option<Vec<Function>> {
        let build_id = module.build_id.clone()?;
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.get(&Address { build_id, offset }).cloned()
    }

    fn remember(&self, module: &Module, found: &HashMap<u64, Vec<Function>>) {
        let Some(build_id) = &module.build_id else {
            return;
        };
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() + found.len() > MAX_CACHED {
            cache.clear();
        }
        for (offset, functions) in found.iter().filter(|(_, functions)| !functions.is_empty()) {
            let address = Address {
                build_id: build_id.clone(),
                offset: *offset,
            };
            cache.insert(address, functions.clone());
        }
    }
}

/// Each module once.
fn modules_of(stacks: &[ThreadStack]) -> Vec<Module> {
    let mut modules: Vec<Module> = Vec::new();
    for module in stacks.iter().flat_map(|stack| &stack.modules) {
        if modules.iter().all(|known| !is_same(known, module)) {
            modules.push(module.clone());
        }
    }
    modules
}

fn is_same(one: &Module, other: &Module) -> bool {
    one.path == other.path && one.build_id == other.build_id
}

fn frames_of<'a>(
    module: &'a Module,
    stacks: &'a [ThreadStack],
) -> impl Iterator<Item = &'a Frame> + 'a {
    stacks.iter().flat_map(move |stack| {
        let frames = stack.frames.iter();
        frames.filter(move |frame| stack.module_of(frame).is_some_and(|of| is_same(of, module)))
    })
}
