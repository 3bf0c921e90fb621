//! The agent as its users see it: figures from hand-made samples, the socket with services and viewers on it, and
//! what it costs.

mod alerts;
mod budget;
mod captures;
mod common;
mod control;
mod evidence;
mod floods;
mod full_disk;
mod judged;
mod now;
mod questions;
mod rule_files;
mod rules;
mod rules_live;
mod socket;
mod successor;
mod window;
