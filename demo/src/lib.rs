//! The demo: a small HTTP service that does what services do, watched by ax, under its own gentle traffic.
//!
//! `ax-top demo` starts it as a child process; tests and benchmarks drive it too. It prints
//! `listening http://127.0.0.1:PORT` as its first line and ends when its standard input does. With a fault from its
//! gallery all goes well for a time; then it prints `fault NAME began UNIX_NS`, and something is wrong.

mod cgroup;
mod database;
mod fault;
mod lanes;
mod partner;
mod routes;
mod traffic;

use std::{
    ffi::OsString,
    io::{ErrorKind, Read as _, Write as _},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context as _;
use ax_probe::Probe;
use clap::{Parser, ValueEnum};
use tokio::{
    net::TcpListener,
    runtime::{Builder, Handle, Runtime},
    sync::oneshot,
};

use crate::fault::{Fault, Scene, Setting, curtain::Curtain, number::Numbers};

/// Exit code when the arguments are wrong: `EX_USAGE`, as everywhere in ax.
const EXIT_USAGE: u8 = 64;

/// The hidden subcommand of `ax-top` that is the demo service.
const SUBCOMMAND: &str = "demo-service";

/// How long requests and jobs get to end once standard input has ended, and so does a fault.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);

/// When the process ends after the end of its standard input, though a fault has left no worker to do it in good order.
const END_AT_THE_LATEST: Duration = Duration::from_secs(5);

/// Threads of the blocking pool: the demo's own work takes at most nine, and a pool that is full is to be seen without
/// hundreds of threads.
const BLOCKING_THREADS: usize = 64;

/// How long all goes well before a fault, unless told otherwise: long enough to learn the usual figures of the service.
const QUIET_MS: u64 = 15_000;

#[derive(Parser)]
#[command(
    name = "demo-service",
    about = "The demo service: HTTP on loopback, four lanes, its own traffic, and faults"
)]
struct Options {
    /// Port on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// How the runtime schedules.
    #[arg(long, value_enum, default_value_t = Flavor::MultiThread)]
    flavor: Flavor,
    /// Worker threads of a multi-thread runtime.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// Requests per second that the service sends to itself; 0 for none.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    rate: u32,
    /// What is to go wrong; `--list-faults` says what can.
    #[arg(long, value_name = "NAME", value_parser = fault::find)]
    fault: Option<&'static Fault>,
    /// Milliseconds in which all goes well before the fault.
    #[arg(long, value_name = "MS", requires = "fault", default_value_t = QUIET_MS)]
    after_ms: u64,
    /// Milliseconds until the fault is over; without it, it goes on.
    #[arg(long, value_name = "MS", requires = "fault")]
    lasting_ms: Option<u64>,
    /// Sets a number of the fault.
    #[arg(long = "set", value_name = "NAME=VALUE", requires = "fault")]
    numbers: Vec<fault::number::Set>,
    /// Say what can go wrong, and end.
    #[arg(long)]
    list_faults: bool,
    /// The list as JSON.
    #[arg(long, requires = "list_faults")]
    json: bool,
    /// Be another process, which computes on so many threads.
    #[arg(long, value_name = "THREADS", hide = true, exclusive = true)]
    neighbour: Option<u16>,
}

impl Options {
    /// Worker threads that the runtime has in the end.
    fn workers(&self) -> usize {
        match self.flavor {
            Flavor::MultiThread => usize::from(self.workers),
            Flavor::CurrentThread => 1,
        }
    }

    /// What is to go wrong, and how.
    fn setting(&self) -> Result<Option<Setting>, String> {
        let Some(fault) = self.fault else {
            return Ok(None);
        };
        Ok(Some(Setting {
            fault,
            numbers: Numbers::of(fault.numbers, &self.numbers)?,
            after: Duration::from_millis(self.after_ms),
            lasting: self.lasting_ms.map(Duration::from_millis),
        }))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Flavor {
    MultiThread,
    CurrentThread,
}

/// Runs the demo service until standard input ends, and returns the process's exit code. `arguments` are those after
/// the program's name.
#[must_use]
pub fn serve(arguments: Vec<OsString>) -> ExitCode {
    let name = OsString::from(SUBCOMMAND);
    let options = match Options::try_parse_from(std::iter::once(name).chain(arguments)) {
        Ok(options) => options,
        Err(error) => {
            // Nothing is left to do where even the error cannot be printed.
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::from(EXIT_USAGE)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    let setting = match options.setting() {
        Ok(setting) => setting,
        Err(wrong) => {
            eprintln!("{SUBCOMMAND}: {wrong}");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let done = match options.neighbour {
        Some(threads) => {
            fault::neighbour::be_one(threads);
            Ok(())
        }
        None if options.list_faults => list_faults(options.json),
        None => run(&options, setting),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo-service: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the gallery of faults.
fn list_faults(json: bool) -> anyhow::Result<()> {
    let text = if json {
        let gallery: Vec<_> = fault::gallery().collect();
        serde_json::to_string(&gallery)? + "\n"
    } else {
        fault::list()
    };
    match std::io::stdout().write_all(text.as_bytes()) {
        // The reader has gone away, which is its right.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write the list"),
    }
}

fn run(options: &Options, setting: Option<Setting>) -> anyhow::Result<()> {
    let runtime = build_runtime(options).context("cannot start the runtime")?;
    let curtain = Curtain::default();
    let ended = stdin_ended(curtain.clone())?;
    let (probe, fault) = runtime.block_on(async {
        let probe = Probe::builder("demo")
            .service_version(env!("CARGO_PKG_VERSION"))
            .stacks(true)
            .allow_control(true)
            .install()
            .context("cannot install the probe")?;
        // On a current_thread runtime the body of `block_on` runs on the one thread that there is, so it is watched.
        let serving = serve_until(options, setting, curtain.clone(), ended);
        let fault = probe.watch("demo_main", serving).await?;
        anyhow::Ok((probe, fault))
    })?;
    curtain.fall();
    runtime.shutdown_timeout(SHUTDOWN_GRACE);
    if let Some(fault) = fault {
        fault.undone(SHUTDOWN_GRACE);
    }
    probe.shutdown();
    Ok(())
}

fn build_runtime(options: &Options) -> std::io::Result<Runtime> {
    let mut builder = match options.flavor {
        Flavor::MultiThread => {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(options.workers());
            builder
        }
        Flavor::CurrentThread => Builder::new_current_thread(),
    };
    builder
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()
}

async fn serve_until(
    options: &Options,
    setting: Option<Setting>,
    curtain: Curtain,
    ended: oneshot::Receiver<()>,
) -> anyhow::Result<Option<fault::Running>> {
    let address = ("127.0.0.1", options.port);
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {}:{}", address.0, address.1))?;
    let address = listener.local_addr()?;
    let slowness = partner::Slowness::default();
    let partner = partner::start(slowness.clone()).await?;
    let lanes = lanes::Lanes::open(partner)?;
    println!("listening http://{address}");
    let traffic = traffic::start(address, options.rate)?;
    if options.rate > 0 {
        tokio::spawn(lanes.clone().report_weekly());
    }
    let workers = options.workers();
    let fault = setting.map(|setting| {
        fault::start(Scene {
            setting,
            curtain,
            runtime: Handle::current(),
            workers,
            blocking_threads: BLOCKING_THREADS,
            lanes: lanes.clone(),
            partner: slowness,
            prepared: None,
        })
    });
    let fault = fault.transpose()?;
    let app = routes::app(lanes.clone(), workers);
    let server = axum::serve(listener, app).into_future();
    tokio::select! {
        outcome = server => outcome.context("the HTTP server failed")?,
        _ = ended => {}
    }
    drop(traffic);
    lanes.shutdown().await;
    Ok(fault)
}

/// Resolves when standard input ends: the parent has closed it, or is gone. The curtain falls at the same time, and the
/// process ends soon after in any case.
fn stdin_ended(curtain: Curtain) -> anyhow::Result<oneshot::Receiver<()>> {
    let (tell, told) = oneshot::channel();
    // A thread of its own: a read of standard input cannot be cancelled, and would hold up the runtime's shutdown.
    std::thread::Builder::new()
        .name("demo-stdin".into())
        .spawn(move || {
            let mut scratch = [0; 64];
            while matches!(std::io::stdin().read(&mut scratch), Ok(read) if read > 0) {}
            curtain.fall();
            // The receiver is gone where the service has ended by itself.
            let _ = tell.send(());
            std::thread::sleep(END_AT_THE_LATEST);
            std::process::exit(1);
        })
        .context("cannot start a thread")?;
    Ok(told)
}
