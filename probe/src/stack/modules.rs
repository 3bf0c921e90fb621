//! The executable and the libraries of this process, with the tables that unwinding needs.
//!
//! They are read through `/proc/self/maps` and `/proc/self/mem`, not through the loader: its lock may be held by the very
//! thread that does not move, and a library that is unloaded at this moment gives an error there instead of a fault.

use std::{collections::HashSet, fs::File, ops::Range, os::unix::fs::FileExt as _, path::PathBuf};

use ax_wire::stack::Module;
use framehop::{ExplicitModuleSectionInfo, Unwinder as _};
use procfs::{
    FromRead as _,
    process::{MMapPath, MemoryMap, MemoryMaps},
};

use super::unwind::Unwinder;
use crate::elf::{self, Segment};

/// Program header: a part that is loaded.
const PT_LOAD: u32 = 1;

/// Program header: the index of the unwind tables.
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;

/// The one form of that index that linkers write: version 1, a pointer relative to its own place, a sorted table.
const INDEX_BEGINS: [u8; 2] = [1, 0x1b];

/// The longest unwind tables of a module that are kept; a service of 50 MB of code has about 5.
const MAX_TABLE_BYTES: u64 = 64 * 1024 * 1024;

/// Where a file is mapped. Another file, or the same one elsewhere, has another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Mapped {
    start: u64,
    end: u64,
    device: (i32, i32),
    inode: u64,
    path: PathBuf,
}

struct Loaded {
    mapped: Mapped,
    /// What the loader added to each address of the file.
    moved_by: u64,
    module: Module,
}

/// What is known of the modules. Some 100 bytes each, and their tables: 100 KB to 5 MB.
pub(super) struct Modules {
    memory: File,
    /// By address.
    loaded: Vec<Loaded>,
}

impl Modules {
    pub(super) fn open() -> Option<Self> {
        Some(Self {
            memory: File::open("/proc/self/mem").ok()?,
            loaded: Vec::new(),
        })
    }

    /// Takes up what was loaded and forgets what was unloaded since the last time. Some 5 ms the first time, then some
    /// 100 us, for reading the list of mappings.
    pub(super) fn refresh(&mut self, unwinder: &mut Unwinder) -> Option<()> {
        let maps = MemoryMaps::from_read(File::open("/proc/self/maps").ok()?).ok()?;
        let mapped: HashSet<Mapped> = mapped_files(&maps).into_iter().collect();
        self.loaded.retain(|loaded| {
            let stays = mapped.contains(&loaded.mapped);
            if !stays {
                unwinder.remove_module(loaded.mapped.start);
            }
            stays
        });
        let known: HashSet<u64> = self.loaded.iter().map(|known| known.mapped.start).collect();
        for mapped in mapped {
            if !known.contains(&mapped.start)
                && let Some(loaded) = self.load(mapped, unwinder)
            {
                self.loaded.push(loaded);
            }
        }
        self.loaded.sort_by_key(|loaded| loaded.mapped.start);
        Some(())
    }

    /// The module at an address, by its index, and the address as the module's file counts it.
    pub(super) fn find(&self, address: u64) -> Option<(usize, u64)> {
        let after = self
            .loaded
            .partition_point(|loaded| loaded.mapped.start <= address);
        let index = after.checked_sub(1)?;
        let loaded = &self.loaded[index];
        (address < loaded.mapped.end).then(|| (index, address.wrapping_sub(loaded.moved_by)))
    }

    pub(super) fn module(&self, index: usize) -> Module {
        self.loaded[index].module.clone()
    }

    /// Reads a file's headers in memory. `None`: no ELF file, or gone.
    fn load(&self, mapped: Mapped, unwinder: &mut Unwinder) -> Option<Loaded> {
        let segments = elf::segments(&self.memory, mapped.start)?;
        let first = segments.iter().find(|segment| segment.kind == PT_LOAD)?;
        let moved_by = mapped
            .start
            .wrapping_sub(first.address.wrapping_sub(first.file_offset));
        let build_id = segments
            .iter()
            .filter(|segment| segment.kind == elf::PT_NOTE)
            .find_map(|notes| {
                let from = moved_by.wrapping_add(notes.address);
                elf::build_id_at(&self.memory, from, notes.file_size)
            });
        let path = mapped.path.to_string_lossy().into_owned();
        if let Some(tables) = self.tables(&segments, moved_by) {
            unwinder.add_module(framehop::Module::new(
                path.clone(),
                mapped.start..mapped.end,
                moved_by,
                tables,
            ));
        }
        Some(Loaded {
            mapped,
            moved_by,
            module: Module {
                path,
                build_id,
                unnamed: None,
            },
        })
    }

    /// Copies the unwind tables of a module.
    fn tables(
        &self,
        segments: &[Segment],
        moved_by: u64,
    ) -> Option<ExplicitModuleSectionInfo<Vec<u8>>> {
        let index = segments
            .iter()
            .find(|segment| segment.kind == PT_GNU_EH_FRAME)?;
        let index_at = index.address..index.address.checked_add(index.file_size)?;
        let index_bytes = self.read(&index_at, moved_by)?;
        if !index_bytes.starts_with(&INDEX_BEGINS) {
            return None;
        }
        let distance = elf::u32_at(&index_bytes, 4)?.cast_signed();
        let frames_from = index_at
            .start
            .checked_add(4)?
            .checked_add_signed(i64::from(distance))?;
        // Nothing says how long the tables are; the segment that holds them is the bound.
        let frames_at = segments
            .iter()
            .filter(|segment| segment.kind == PT_LOAD)
            .map(|segment| segment.address..segment.address.saturating_add(segment.file_size))
            .find(|range| range.contains(&frames_from))
            .map(|range| frames_from..range.end)?;
        let frames_bytes = self.read(&frames_at, moved_by)?;
        Some(ExplicitModuleSectionInfo {
            eh_frame_svma: Some(frames_at),
            eh_frame: Some(frames_bytes),
            eh_frame_hdr_svma: Some(index_at),
            eh_frame_hdr: Some(index_bytes),
            ..ExplicitModuleSectionInfo::default()
        })
    }

    fn read(&self, at: &Range<u64>, moved_by: u64) -> Option<Vec<u8>> {
        let size = at.end.checked_sub(at.start)?;
        if size > MAX_TABLE_BYTES {
            return None;
        }
        let mut bytes = vec![0; size as usize];
        let from = moved_by.wrapping_add(at.start);
        self.memory.read_exact_at(&mut bytes, from).ok()?;
        Some(bytes)
    }
}

/// Puts the mappings of one loading of one file together: they follow each other, the first one from its beginning.
fn mapped_files(maps: &MemoryMaps) -> Vec<Mapped> {
    let mut files: Vec<Mapped> = Vec::new();
    for map in maps {
        let Some(path) = module_path(map) else {
            continue;
        };
        let (start, end) = map.address;
        match files.last_mut() {
            Some(file) if map.offset != 0 && file.inode == map.inode && file.device == map.dev => {
                file.end = end;
            }
            _ if map.offset == 0 => files.push(Mapped {
                start,
                end,
                device: map.dev,
                inode: map.inode,
                path,
            }),
            // A part of a file without its beginning: nothing says what it is.
            _ => {}
        }
    }
    files
}

fn module_path(map: &MemoryMap) -> Option<PathBuf> {
    match &map.pathname {
        MMapPath::Path(path) => Some(path.clone()),
        MMapPath::Vdso => Some(PathBuf::from("[vdso]")),
        _ => None,
    }
}
