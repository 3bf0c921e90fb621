//! Names for the addresses of one ELF file, from its debug information and its symbols.
//!
//! The file is a stranger's. This is meant for a process of its own, with limits: see [`child`](super::child).

use std::{
    borrow::Cow,
    fmt::Write as _,
    io::{Read, Seek},
};

use addr2line::{
    Context,
    gimli::{DwarfSections, EndianSlice, RunTimeEndian, SectionId},
};
use ax_wire::stack::{Function, MAX_INLINED};
use object::{
    Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, ReadCache, SymbolKind,
};
use serde::{Deserialize, Serialize};

/// Longest name or file that is passed on, in bytes. A name with many type parameters may have thousands.
const MAX_TEXT_BYTES: usize = 1024;

/// What one file says.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Names {
    /// For each address that was asked for: the function, after those inlined into it. Empty: not known here.
    pub(crate) functions: Vec<Vec<Function>>,
    /// Whether the file has line tables. Without, a separate file may have them.
    pub(crate) has_lines: bool,
    /// What the file calls the separate file with its debug information.
    pub(crate) debug_file: Option<String>,
}

/// Why a file gives no names.
#[derive(Debug, thiserror::Error)]
pub enum NamesError {
    /// Damaged, or of another kind.
    #[error("it is no ELF file that can be read ({0})")]
    NotElf(#[from] object::Error),
    /// The debug information is damaged.
    #[error("its debug information cannot be read ({0})")]
    BadDebug(#[from] addr2line::gimli::Error),
    /// It is another build.
    #[error("its build id is {found}, and the stack is of {wanted}: it is another build")]
    OtherBuild {
        /// That of the file.
        found: String,
        /// That of the stack's module.
        wanted: String,
    },
    /// It cannot be compared.
    #[error(
        "it has no build id to compare with that of the stack; link it with `-C link-arg=-Wl,--build-id`"
    )]
    NoBuildId,
}

/// Reads the names of `addresses`, which are counted as the file counts them. `build_id` is the one that it must have;
/// `None`: it is known to be the right file.
pub(crate) fn read(
    file: impl Read + Seek,
    build_id: Option<&str>,
    addresses: &[u64],
) -> Result<Names, NamesError> {
    let cache = ReadCache::new(file);
    let object = object::File::parse(&cache)?;
    if let Some(wanted) = build_id {
        let found = object.build_id()?.ok_or(NamesError::NoBuildId)?;
        let found = hexadecimal(found);
        if found != wanted {
            let wanted = wanted.to_owned();
            return Err(NamesError::OtherBuild { found, wanted });
        }
    }
    let mut names = Names {
        functions: vec![Vec::new(); addresses.len()],
        has_lines: object.section_by_name(".debug_line").is_some(),
        debug_file: debug_file(&object),
    };
    let symbols = symbols(&object, addresses);
    let endian = match object.endianness() {
        Endianness::Little => RunTimeEndian::Little,
        Endianness::Big => RunTimeEndian::Big,
    };
    let sections = DwarfSections::load(|id: SectionId| -> Result<_, object::Error> {
        let section = object.section_by_name(id.name());
        section.map_or(Ok(Cow::default()), |section| section.uncompressed_data())
    })?;
    let dwarf = sections.borrow(|section| EndianSlice::new(section, endian));
    let context = Context::from_dwarf(dwarf)?;
    for ((address, functions), symbol) in addresses.iter().zip(&mut names.functions).zip(symbols) {
        *functions = inlined(&context, *address);
        match (functions.last_mut(), symbol) {
            (None, Some(name)) => functions.push(Function {
                name,
                file: None,
                line: None,
            }),
            // Line tables alone name functions without their crate and module, which the symbol has.
            (Some(outermost), Some(name)) => outermost.name = name,
            _ => {}
        }
        functions.retain(|function| !function.name.is_empty());
    }
    Ok(names)
}

/// The functions at an address: innermost first, with their places. What is damaged there is left out.
fn inlined(context: &Context<EndianSlice<'_, RunTimeEndian>>, address: u64) -> Vec<Function> {
    let mut functions = Vec::new();
    // `addr2line` looks at the address after it, too, and would overflow.
    if address == u64::MAX {
        return functions;
    }
    let Ok(mut frames) = context.find_frames(address).skip_all_loads() else {
        return functions;
    };
    while let Ok(Some(frame)) = frames.next()
        && functions.len() < MAX_INLINED
    {
        let name = frame
            .function
            .as_ref()
            .and_then(|name| name.raw_name().ok());
        let place = frame.location.as_ref();
        functions.push(Function {
            name: name.map_or_else(String::new, |name| demangled(&name)),
            file: place.and_then(|place| place.file).map(shortened),
            line: place.and_then(|place| place.line),
        });
    }
    functions
}

/// The symbol that spans each address. Goes through the tables once and keeps nothing of them.
fn symbols<'data>(
    object: &object::File<'data, &'data ReadCache<impl Read + Seek>>,
    addresses: &[u64],
) -> Vec<Option<String>> {
    let mut found = vec![None; addresses.len()];
    let mut order: Vec<usize> = (0..addresses.len()).collect();
    order.sort_by_key(|index| addresses[*index]);
    for symbol in object.symbols().chain(object.dynamic_symbols()) {
        if symbol.kind() != SymbolKind::Text {
            continue;
        }
        let (from, size) = (symbol.address(), symbol.size());
        let first = order.partition_point(|index| addresses[*index] < from);
        for index in &order[first..] {
            if addresses[*index] - from >= size {
                break;
            }
            if found[*index].is_none() {
                found[*index] = symbol.name().ok().map(demangled);
            }
        }
    }
    found
}

fn debug_file<'data>(
    object: &object::File<'data, &'data ReadCache<impl Read + Seek>>,
) -> Option<String> {
    let (name, _) = object.gnu_debuglink().ok()??;
    std::str::from_utf8(name).ok().map(str::to_owned)
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn demangled(name: &str) -> String {
    match rustc_demangle::try_demangle(name) {
        // Without the hash at its end.
        Ok(name) => shortened(&format!("{name:#}")),
        Err(_) => shortened(name),
    }
}

fn shortened(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_TEXT_BYTES);
    text[..end].to_owned()
}
