//! The agent's end of the socket, reduced to what the stacks need.

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
};

use ax_wire::{
    RuntimeId, ToAgent, ToService,
    event::Event,
    frame::{Ack, decode, encode},
    hello::PROTOCOL,
    stack::ThreadStack,
};

use crate::support::{PATIENCE, eventually};

pub struct FakeAgent {
    listener: UnixListener,
    folder: tempfile::TempDir,
}

/// What matters here of what a service tells.
pub enum Told {
    Stack {
        runtime: RuntimeId,
        /// The job of the stall that it belongs to.
        task: Option<String>,
        stack: Box<ThreadStack>,
    },
    Else,
}

pub struct Connection {
    lines: BufReader<UnixStream>,
    pid: u32,
    tasks: HashMap<u64, Option<String>>,
    waiting: Vec<Told>,
}

impl FakeAgent {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let listener = UnixListener::bind(folder.path().join("agent.sock")).expect("binds");
        listener.set_nonblocking(true).expect("a socket takes it");
        Self { listener, folder }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("agent.sock")
    }

    pub fn accept(&self) -> Connection {
        let (stream, _) = eventually("the service", || self.listener.accept().ok());
        stream.set_nonblocking(false).expect("a socket takes it");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a socket takes a timeout");
        let mut connection = Connection {
            lines: BufReader::new(stream),
            pid: 0,
            tasks: HashMap::new(),
            waiting: Vec::new(),
        };
        connection.read().expect("a hello");
        connection
    }
}

impl Connection {
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What comes next; `None` when the service has ended.
    pub fn next(&mut self) -> Option<Told> {
        while self.waiting.is_empty() {
            self.read()?;
        }
        Some(self.waiting.remove(0))
    }

    fn read(&mut self) -> Option<()> {
        let mut line = Vec::new();
        let bytes = self
            .lines
            .read_until(b'\n', &mut line)
            .expect("a line in time");
        if bytes == 0 {
            return None;
        }
        match decode(&line).expect("a frame") {
            ToAgent::Hello(hello) => {
                self.pid = hello.pid;
                let ack = ToService::Ack(Ack {
                    protocol: PROTOCOL,
                    agent_version: "0".to_owned(),
                    agent_pid: std::process::id(),
                });
                let mut line = Vec::new();
                encode(&ack, &mut line).expect("encodes");
                self.lines
                    .get_mut()
                    .write_all(&line)
                    .expect("the service reads");
            }
            ToAgent::Events(events) => events.events.into_iter().for_each(|event| self.take(event)),
            _ => self.waiting.push(Told::Else),
        }
        Some(())
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::StallBegan(stall) => {
                let name = stall.task.map(|task| task.name);
                self.tasks.insert(stall.id, name);
            }
            Event::Stack(stack) => self.waiting.push(Told::Stack {
                runtime: stack.runtime,
                task: self.tasks.get(&stack.stall).cloned().flatten(),
                stack,
            }),
            _ => self.waiting.push(Told::Else),
        }
    }
}
