//! The exit codes of `ax-top`. They are part of its interface: a script may rely on them.

/// Done.
pub const OK: u8 = 0;

/// Of `ax-top check`: something is wrong that somebody should look at today.
pub const WARNING: u8 = 1;

/// Of `ax-top check`: something is wrong that somebody should look at now.
pub const CRITICAL: u8 = 2;

/// Nothing can be said: no service is connected, or none of the name that was asked for.
pub const UNKNOWN: u8 = 3;

/// Something became worse from one load session to the next, and `--fail-on regression` was asked for.
pub const REGRESSION: u8 = 4;

/// A load session ended before its plan did: a threshold of `--abort` broke, the service went away, or the wrapped command
/// failed. What was measured until then is in its file.
pub const ENDED_EARLY: u8 = 5;

/// The command line is wrong, or the dashboard was asked for where there is no terminal.
pub const USAGE: u8 = 64;

/// A file that was named cannot be read as what it should be (`EX_DATAERR`).
pub const BAD_DATA: u8 = 65;

/// What the command needs could not be started: an agent, or the demo service.
pub const UNAVAILABLE: u8 = 69;

/// A fault of `ax-top` itself.
pub const INTERNAL: u8 = 70;

/// The terminal or the standard output could not be used. A reader that goes away (`ax-top watch | head -1`) is not
/// an error: that ends with [`OK`].
pub const IO_ERROR: u8 = 74;

/// No snapshot now: the service is silent or gone, one was taken a moment ago, or the disk is full. The text says which;
/// another try may succeed (`EX_TEMPFAIL`).
pub const NOT_NOW: u8 = 75;

/// A signal came before there was anything to say: 128 + SIGINT, as shells have it.
pub const INTERRUPTED: u8 = 130;
