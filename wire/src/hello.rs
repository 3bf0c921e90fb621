//! The handshake: who a service is.

use serde::{Deserialize, Serialize};

use crate::id::{InstanceId, RuntimeId};

/// The version of the protocol that this crate speaks.
///
/// `major` is bumped when an old reader would misread a frame: both sides then refuse each other with a reason.
/// `minor` is bumped when fields or frames are added: readers ignore what they do not know.
pub const PROTOCOL: ProtocolVersion = ProtocolVersion { major: 1, minor: 1 };

/// See [`PROTOCOL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProtocolVersion {
    /// Both sides must have the same.
    pub major: u32,
    /// May differ.
    pub minor: u32,
}

impl std::fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The first frame of a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hello {
    /// What the probe speaks.
    pub protocol: ProtocolVersion,
    /// The name that the service gave to its probe.
    pub service: String,
    /// This start of it.
    pub instance: InstanceId,
    /// Process id, in the service's own pid namespace.
    pub pid: u32,
    /// When the process started.
    pub process_start_unix_ns: u64,
    /// The service's own version, where it told the probe.
    pub service_version: Option<String>,
    /// The ELF build id of the executable, in hexadecimal.
    pub build_id: Option<String>,
    /// Version of `ax-probe`.
    pub probe_version: String,
    /// CPUs that the process may use.
    pub cpus: u32,
    /// The runtimes known when the frame was sent; later ones come with their first sample.
    pub runtimes: Vec<RuntimeInfo>,
    /// What this probe can see and do beyond the plain protocol, such as `tokio_unstable`. Unknown names are ignored.
    pub features: Vec<String>,
    /// Ties the monotonic clock to the wall clock.
    pub clock: ClockAnchor,
    /// From which length on a worker that does not move is a stall (T).
    pub stall_threshold_ns: u64,
    /// From which length on a stall or lag triggers a snapshot (S).
    pub snapshot_threshold_ns: u64,
}

/// One instant on both clocks. A `*_mono_ns` of the same service becomes wall time as
/// `unix_ns + (mono_ns - anchor.mono_ns)`. Sent again when the wall clock is stepped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockAnchor {
    /// `CLOCK_MONOTONIC`.
    pub mono_ns: u64,
    /// `CLOCK_REALTIME`.
    pub unix_ns: u64,
}

impl ClockAnchor {
    /// The wall time of a monotonic instant of the same machine.
    #[must_use]
    pub fn to_unix_ns(self, mono_ns: u64) -> u64 {
        self.unix_ns
            .saturating_add(mono_ns)
            .saturating_sub(self.mono_ns)
    }
}

/// What does not change about a runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuntimeInfo {
    /// Its number in this process.
    pub id: RuntimeId,
    /// The name given to `tokio::runtime::Builder::name`.
    pub name: Option<String>,
    /// How it schedules.
    pub flavor: RuntimeFlavor,
    /// Number of worker threads; 1 for `current_thread`.
    pub workers: u32,
}

/// How a runtime schedules its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RuntimeFlavor {
    /// One thread, the one that called `block_on`.
    CurrentThread,
    /// A pool of workers that steal from each other.
    MultiThread,
    /// A kind that this reader does not know.
    #[serde(other)]
    Other,
}
