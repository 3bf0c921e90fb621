//! The stack of a thread that did not move: taken by the probe as addresses, named by the agent.
//!
//! An address travels as a module and an offset in it, which mean the same on every machine that has that build. Names
//! come later, in place: a [`Frame`] without [`functions`](Frame::functions) has none yet, or its module's
//! [`unnamed`](Module::unnamed) says why not.

use serde::{Deserialize, Serialize};

use crate::id::RuntimeId;

/// Most frames of a stack; one that is cut there is [`StackEnd::Cut`].
pub const MAX_FRAMES: usize = 256;

/// Most functions of a frame: one, and those that the compiler inlined into it.
pub const MAX_INLINED: usize = 64;

/// The stack of one thread at one instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadStack {
    /// [`Stall::id`](crate::event::Stall::id) of the stall that it belongs to.
    pub stall: u64,
    /// Of which runtime.
    pub runtime: RuntimeId,
    /// Which worker; `None` for a future watched outside the workers.
    pub worker: Option<u32>,
    /// The kernel thread id.
    pub tid: u32,
    /// When it was taken.
    pub at_mono_ns: u64,
    /// How long the stall had lasted then.
    pub stall_age_ns: u64,
    /// How long the thread was held up for it.
    pub held_up_ns: u64,
    /// What is known of the poll that it shows.
    pub proof: StackProof,
    /// How far it reaches.
    pub end: StackEnd,
    /// What [`Frame::module`] counts.
    pub modules: Vec<Module>,
    /// Innermost first, at most [`MAX_FRAMES`].
    pub frames: Vec<Frame>,
}

/// What is known of the poll that a stack shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StackProof {
    /// The same wrapped poll went on before and after it was taken: it is that poll's.
    SamePoll,
    /// There was no wrapped poll to compare; the worker's counters stood still before and after. Of a worker that
    /// computes it may be another of up to 61 short polls.
    CountersStoodStill,
    /// A kind that this reader does not know.
    #[serde(other)]
    Other,
}

/// How far a stack reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StackEnd {
    /// To the thread's first function.
    Root,
    /// As far as the copy of the stack or [`MAX_FRAMES`] went.
    Cut,
    /// To code without unwind tables, such as code made at run time.
    Lost,
    /// A kind that this reader does not know.
    #[serde(other)]
    Other,
}

/// An executable or library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Module {
    /// Its file, as the service sees it. `[vdso]` for the kernel's own.
    pub path: String,
    /// Its ELF build id, in hexadecimal. `None` where the linker wrote none.
    pub build_id: Option<String>,
    /// Why its frames have no names, for a person. `None`: they have, or nobody has tried yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unnamed: Option<String>,
}

impl Module {
    /// The file's name without its folder.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// One address of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Frame {
    /// Index into [`ThreadStack::modules`]. `None`: in no file, such as code made at run time.
    pub module: Option<u32>,
    /// The address as the module's file counts it (before it was moved by loading); the absolute address without a
    /// module. It lies within the instruction that runs, or that made the call.
    pub offset: u64,
    /// The function, after those that the compiler inlined into it: innermost first. Empty: without a name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<Function>,
}

/// One function of a frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Function {
    /// Its full name, demangled.
    pub name: String,
    /// The source file, where the build has line tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

impl ThreadStack {
    /// The module of a frame.
    #[must_use]
    pub fn module_of(&self, frame: &Frame) -> Option<&Module> {
        self.modules.get(frame.module? as usize)
    }

    /// Whether any frame has a name.
    #[must_use]
    pub fn is_named(&self) -> bool {
        self.frames.iter().any(|frame| !frame.functions.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_without_names_is_small_and_comes_back() {
        let frame = Frame {
            module: Some(0),
            offset: 0x12_3456,
            functions: Vec::new(),
        };
        let stack = ThreadStack {
            stall: 7,
            runtime: RuntimeId(1),
            worker: Some(3),
            tid: 4711,
            at_mono_ns: 1_000_000_000,
            stall_age_ns: 52_000_000,
            held_up_ns: 600,
            proof: StackProof::SamePoll,
            end: StackEnd::Root,
            modules: vec![Module {
                path: "/srv/bin/checkout".to_owned(),
                build_id: Some("ab".repeat(20)),
                unnamed: None,
            }],
            frames: vec![frame; 40],
        };
        let json = serde_json::to_string(&stack).expect("encodes");
        assert!(json.len() < 1_800, "{} bytes", json.len());
        let back: ThreadStack = serde_json::from_str(&json).expect("decodes");
        assert_eq!(back, stack);
        let module = back.module_of(&back.frames[0]);
        assert_eq!(module.map(Module::name), Some("checkout"));
        assert!(!back.is_named());
    }

    #[test]
    fn what_a_newer_probe_says_is_unknown_and_a_wrong_index_is_no_module() {
        let json = r#"{"stall":1,"runtime":1,"worker":null,"tid":1,"at_mono_ns":1,"stall_age_ns":1,"held_up_ns":1,
            "proof":"hunch","end":"edge","modules":[],"frames":[{"module":9,"offset":1}]}"#;
        let stack: ThreadStack = serde_json::from_str(json).expect("decodes");
        assert_eq!(
            (stack.proof, stack.end),
            (StackProof::Other, StackEnd::Other)
        );
        assert_eq!(stack.module_of(&stack.frames[0]), None);
    }
}
