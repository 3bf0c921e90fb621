//! One table: which key does what. The help page, the footer, the `:` commands and the `[keys]` of the configuration are
//! made of it.

mod chord;
mod table;

use std::collections::HashMap;

pub use self::{
    chord::{Chord, Key},
    table::bindings,
};
use crate::{
    screens::Mode,
    widget::table::{SortBy, Step},
};

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Quit,
    /// Opens a screen.
    Open(Mode),
    /// Opens a page that lies over the screens, or closes it.
    Toggle(Mode),
    NextScreen,
    PreviousScreen,
    /// Takes away the filter or the cursor, else goes back to where the page was opened from.
    Back,
    /// Opens the selected row.
    Enter,
    FocusNext,
    FocusPrevious,
    Step(Step),
    /// Steps by so many halves of what is seen, back where it is negative.
    Page(isize),
    /// Pushes columns out to the left, or pulls them back in.
    Sideways(isize),
    Sort(SortBy),
    /// Opens the line for a filter, or that for a command.
    Filter,
    Command,
    /// Takes a snapshot of the service that is shown.
    Capture,
    /// Freezes the screen, or lets it go on.
    Freeze,
    /// Back to now, live.
    Resume,
    NextService,
    PreviousService,
    Time(TimeStep),
    /// Copies the name of the selected row.
    Copy,
    /// Writes the list to a file.
    Export(Format),
    /// Asks whether the service is to be changed.
    Control(ControlKey),
    Suspend,
    Redraw,
}

/// What can be changed of a running service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlKey {
    /// Pauses the selected lane, or resumes it.
    Pause,
    Resize,
    /// Of the selected job.
    Cancel,
    Retry,
}

/// What is done to the time that the charts show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeStep {
    ZoomIn,
    ZoomOut,
    ZoomReset,
    /// By half of what the charts show.
    Back,
    Forward,
    CursorOlder,
    CursorNewer,
    MarkOlder,
    MarkNewer,
    Slower,
    Faster,
}

/// The format of an exported list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Csv,
    Json,
}

impl Action {
    /// Whether it needs a service that runs, or was running: a snapshot file stands still.
    pub fn is_live(self) -> bool {
        matches!(
            self,
            Self::Capture
                | Self::Control(_)
                | Self::Freeze
                | Self::Resume
                | Self::Toggle(Mode::Services)
                | Self::Time(TimeStep::Slower | TimeStep::Faster)
        )
    }

    /// Whether it asks something of the service.
    pub fn is_control(self) -> bool {
        matches!(self, Self::Capture | Self::Control(_))
    }
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// As the configuration and the command line call it.
    pub name: String,
    pub chords: Vec<Chord>,
    pub action: Action,
    /// What it does.
    pub help: &'static str,
    /// Its word in the footer, for the keys that are needed most.
    pub footer: Option<&'static str>,
}

impl Binding {
    /// Its keys, as the help page shows them.
    pub fn label(&self) -> String {
        let chords: Vec<String> = self.chords.iter().map(Chord::to_string).collect();
        chords.join("  ")
    }
}

/// Which key does what, as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keymap {
    bindings: Vec<Binding>,
}

/// What the keys that were pressed so far come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressed {
    Action(Action),
    /// They begin something that needs more keys.
    Begun,
    Nothing,
}

/// Why keys cannot be bound so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeymapError {
    /// Nothing is called so.
    #[error("there is no action `{0}`; `ax-top config --print-default` lists them")]
    UnknownAction(String),
    /// Two actions have one key.
    #[error("`{chord}` is bound to `{first}` and to `{second}`")]
    Twice {
        chord: Chord,
        first: String,
        second: String,
    },
    /// The one could never be finished.
    #[error("`{short}` of `{first}` hides `{long}` of `{second}`, which begins with it")]
    Hides {
        short: Chord,
        first: String,
        long: Chord,
        second: String,
    },
    /// Nobody could leave.
    #[error("nothing is bound to `quit`")]
    NoQuit,
}

impl Default for Keymap {
    fn default() -> Self {
        Self {
            bindings: bindings(),
        }
    }
}

impl Keymap {
    /// The default, with these actions on other keys. A key that is given to one action is taken from the one that has it
    /// by default.
    ///
    /// # Errors
    ///
    /// An action that nobody knows, or a key with two meanings.
    pub fn with(changes: &HashMap<String, Vec<Chord>>) -> Result<Self, KeymapError> {
        let mut keymap = Self::default();
        let known = |name: &String| keymap.bindings.iter().any(|binding| binding.name == *name);
        if let Some(unknown) = changes.keys().find(|name| !known(name)) {
            return Err(KeymapError::UnknownAction(unknown.clone()));
        }
        for binding in &mut keymap.bindings {
            match changes.get(&binding.name) {
                Some(chords) => binding.chords.clone_from(chords),
                None => binding.chords.retain(|chord| {
                    let mut taken = changes.values().flatten();
                    !taken.any(|taken| taken == chord)
                }),
            }
        }
        keymap.check()?;
        Ok(keymap)
    }

    fn check(&self) -> Result<(), KeymapError> {
        let all = || {
            let bindings = self.bindings.iter();
            bindings.flat_map(|binding| binding.chords.iter().map(move |chord| (chord, binding)))
        };
        for (at, (short, first)) in all().enumerate() {
            for (other, (long, second)) in all().enumerate() {
                let (first, second) = (first.name.clone(), second.name.clone());
                if at < other && short == long {
                    let chord = short.clone();
                    return Err(KeymapError::Twice {
                        chord,
                        first,
                        second,
                    });
                }
                if short != long && long.0.starts_with(&short.0) {
                    let (short, long) = (short.clone(), long.clone());
                    return Err(KeymapError::Hides {
                        short,
                        first,
                        long,
                        second,
                    });
                }
            }
        }
        let mut quits = self
            .bindings
            .iter()
            .filter(|binding| binding.action == Action::Quit);
        if quits.all(|quit| quit.chords.is_empty()) {
            return Err(KeymapError::NoQuit);
        }
        Ok(())
    }

    /// The lines, in the order of the help page.
    pub fn bindings(&self) -> &[Binding] {
        &self.bindings
    }

    /// The actions that no key is left for: another one has taken it, or the configuration gives it none.
    pub fn keyless(&self) -> Vec<&str> {
        let keyless = self.bindings.iter().filter(|of| of.chords.is_empty());
        keyless.map(|of| of.name.as_str()).collect()
    }

    /// The line of an action.
    pub fn binding(&self, action: Action) -> Option<&Binding> {
        self.bindings
            .iter()
            .find(|binding| binding.action == action)
    }

    /// What these keys come to, pressed one after the other.
    pub fn press(&self, keys: &[Key]) -> Pressed {
        let mut pressed = Pressed::Nothing;
        for binding in &self.bindings {
            for chord in &binding.chords {
                if chord.0 == keys {
                    return Pressed::Action(binding.action);
                }
                if chord.0.starts_with(keys) {
                    pressed = Pressed::Begun;
                }
            }
        }
        pressed
    }
}

#[cfg(test)]
mod tests;
