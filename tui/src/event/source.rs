//! Where the figures come from: an agent, a snapshot file, or a recording.

use std::io;

use tokio::time::{Interval, MissedTickBehavior, interval};

use super::FRAME;
use crate::{client::Client, demo::Service, record::Player, world::Update};

/// See the module.
pub enum Source<'a> {
    Agent {
        client: Client,
        /// The demo service, until it has ended.
        service: Option<&'a mut Service>,
    },
    /// A snapshot file: nothing comes.
    File,
    Recording {
        player: Box<Player>,
        clock: Interval,
    },
}

/// What comes of it.
pub enum News {
    Update(Update),
    /// The demo service has ended by itself, in this way.
    Ended(String),
    /// Time has gone by for a recording.
    Tick,
}

impl Source<'_> {
    /// A recording.
    pub fn recording(player: Player) -> Self {
        let mut clock = interval(FRAME);
        clock.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Self::Recording {
            player: Box::new(player),
            clock,
        }
    }

    /// Waits for what comes next. Cancel safe.
    ///
    /// # Errors
    ///
    /// The client of the agent has died, which is a fault of ours.
    pub async fn news(&mut self) -> io::Result<News> {
        match self {
            Self::File => std::future::pending().await,
            Self::Recording { clock, .. } => {
                clock.tick().await;
                Ok(News::Tick)
            }
            Self::Agent { client, service } => tokio::select! {
                update = client.updates.recv() => match update {
                    Some(update) => Ok(News::Update(update)),
                    None => Err(io::Error::other("the client of the agent has died")),
                },
                ended = ended(service) => Ok(News::Ended(ended)),
            },
        }
    }

    /// What has come already, without waiting.
    pub fn waiting(&mut self) -> Option<Update> {
        match self {
            Self::Agent { client, .. } => client.updates.try_recv().ok(),
            Self::File | Self::Recording { .. } => None,
        }
    }
}

/// The demo service, when it ends by itself; never where there is none or its end has been told.
async fn ended(service: &mut Option<&mut Service>) -> String {
    match service {
        Some(running) => {
            let ended = running.ended().await;
            *service = None;
            ended
        }
        None => std::future::pending().await,
    }
}
