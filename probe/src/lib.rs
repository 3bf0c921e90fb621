//! The part of ax that runs inside a service.

pub mod clock;
pub mod histogram;
pub mod runtime;
pub mod slot;
pub mod source;
pub mod task_type;
