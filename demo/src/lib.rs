//! The demo: a small HTTP service that does what services do, watched by ax, under its own gentle traffic.
//!
//! `ax-top demo` starts it as a child process; tests and benchmarks drive it too. It prints
//! `listening http://127.0.0.1:PORT` as its first line and ends when its standard input does.

mod database;
mod fault;
mod lanes;
mod partner;
mod routes;
mod traffic;

use std::{ffi::OsString, io::Read as _, process::ExitCode, time::Duration};

use anyhow::Context as _;
use ax_probe::Probe;
use clap::{Parser, ValueEnum};
use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
    sync::oneshot,
};

/// Exit code when the arguments are wrong: `EX_USAGE`, as everywhere in ax.
const EXIT_USAGE: u8 = 64;

/// How long requests and jobs get to end once standard input has ended.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);

#[derive(Parser)]
#[command(
    name = "demo-service",
    about = "The demo service: HTTP on loopback, four lanes, its own traffic"
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
    let name = OsString::from("demo-service");
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
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo-service: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> anyhow::Result<()> {
    let runtime = build_runtime(options).context("cannot start the runtime")?;
    let ended = stdin_ended()?;
    let probe = runtime.block_on(async {
        let probe = Probe::builder("demo")
            .service_version(env!("CARGO_PKG_VERSION"))
            .stacks(true)
            .install()
            .context("cannot install the probe")?;
        // On a current_thread runtime the body of `block_on` runs on the one thread that there is, so it is watched.
        probe
            .watch("demo_main", serve_until(options, ended))
            .await?;
        anyhow::Ok(probe)
    })?;
    runtime.shutdown_timeout(SHUTDOWN_GRACE);
    probe.shutdown();
    Ok(())
}

fn build_runtime(options: &Options) -> std::io::Result<Runtime> {
    match options.flavor {
        Flavor::MultiThread => Builder::new_multi_thread()
            .worker_threads(usize::from(options.workers))
            .enable_all()
            .build(),
        Flavor::CurrentThread => Builder::new_current_thread().enable_all().build(),
    }
}

async fn serve_until(options: &Options, ended: oneshot::Receiver<()>) -> anyhow::Result<()> {
    let address = ("127.0.0.1", options.port);
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {}:{}", address.0, address.1))?;
    let address = listener.local_addr()?;
    let partner = partner::start().await?;
    let lanes = lanes::Lanes::open(partner)?;
    println!("listening http://{address}");
    let traffic = traffic::start(address, options.rate)?;
    let workers = match options.flavor {
        Flavor::MultiThread => usize::from(options.workers),
        Flavor::CurrentThread => 1,
    };
    let app = routes::app(lanes.clone(), workers);
    let server = axum::serve(listener, app).into_future();
    tokio::select! {
        outcome = server => outcome.context("the HTTP server failed")?,
        _ = ended => {}
    }
    drop(traffic);
    lanes.shutdown().await;
    Ok(())
}

/// Resolves when standard input ends: the parent has closed it, or is gone.
fn stdin_ended() -> anyhow::Result<oneshot::Receiver<()>> {
    let (tell, told) = oneshot::channel();
    // A thread of its own: a read of standard input cannot be cancelled, and would hold up the runtime's shutdown.
    std::thread::Builder::new()
        .name("demo-stdin".into())
        .spawn(move || {
            let mut scratch = [0; 64];
            while matches!(std::io::stdin().read(&mut scratch), Ok(read) if read > 0) {}
            // The receiver is gone where the service has ended by itself.
            let _ = tell.send(());
        })
        .context("cannot start a thread")?;
    Ok(told)
}
