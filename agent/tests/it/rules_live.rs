//! Rules of an agent that runs: its file, its actions, what it tells viewers.
