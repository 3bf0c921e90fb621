//! The service under load: this test program started again, so that it has a process, a probe and an agent of its own.

use std::{
    env,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use ax_probe::Probe;
use ax_scheduler::{Downstream, Lane, Scheduler, downstream, trace::TraceLayer};
use axum::{
    Router,
    extract::{MatchedPath, Query, State},
    routing::get,
};
use serde::Deserialize;

use crate::support::{Guarded, PrivateAgent, http, watched::build};

/// Set in the child: the socket of its agent.
const CHILD: &str = "AX_TEST_LOAD_SOCKET";

/// The limit of both lanes under load.
pub const LIMIT: usize = 20;

/// The service's side of things; its methods ask it over HTTP.
pub struct Service {
    pub agent: PrivateAgent,
    pub address: String,
    child: Guarded,
    /// Kept open: what drives tests says after a minute that this one runs long, and would end where nobody can hear it.
    _output: BufReader<ChildStdout>,
}

impl Service {
    /// Starts it, on one worker, and waits for its first figures.
    pub fn start() -> Self {
        let agent = PrivateAgent::start();
        let mut child = Command::new(env::current_exe().expect("this program"))
            .args([
                "--ignored",
                "--exact",
                "serve_until_stdin_ends",
                "--nocapture",
            ])
            .env(CHILD, agent.socket())
            .env_remove("AX_DISABLE")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let address = output
            .by_ref()
            .lines()
            .map(|line| line.expect("text"))
            .find_map(|line| Some(line.split_once("listening http://")?.1.to_owned()));
        let address = address.expect("says where it listens");
        agent.viewer().first_figures("load-test");
        Self {
            agent,
            address,
            child: Guarded(child),
            _output: output,
        }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Jobs of the lane `work` that ended, and how long they ran together, by the service's own clock.
    pub fn worked(&self) -> (u64, f64) {
        let answer = http(&self.address, "GET", "/worked");
        let (_, body) = answer.rsplit_once("\r\n\r\n").expect("an answer");
        let (count, ns) = body.trim().split_once(' ').expect("two figures");
        let seconds = ns.parse::<f64>().expect("a figure") / 1e9;
        (count.parse().expect("a count"), seconds)
    }

    /// Ends it at once, as a crash would.
    pub fn kill(&mut self) {
        self.child.0.kill().expect("it runs");
    }
}

#[derive(Clone)]
struct App {
    scheduler: Scheduler,
    work: Lane,
    db: Lane,
    database: Downstream,
    ended: Arc<AtomicU64>,
    ran_ns: Arc<AtomicU64>,
}

#[derive(Deserialize)]
struct Span {
    us: u64,
}

/// The child's part.
pub fn serve() {
    let Some(socket) = env::var_os(CHILD) else {
        return;
    };
    let runtime = build(Some(1), "load-test");
    let probe = runtime.block_on(async {
        let probe = Probe::builder("load-test")
            .socket(Path::new(&socket))
            .allow_control(true)
            .install()
            .expect("a runtime");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        println!(
            "\nlistening http://{}",
            listener.local_addr().expect("has one")
        );
        let app = app();
        tokio::spawn(async move { axum::serve(listener, app).await });
        probe
    });
    let _ = std::io::stdin().read(&mut [0]);
    drop(probe);
    runtime.shutdown_timeout(Duration::from_millis(200));
}

fn app() -> Router {
    let scheduler = Scheduler::new();
    let lane = |name: &str| {
        let lane = scheduler.lane(name).limit(LIMIT).capacity(1_000_000);
        lane.open().expect("valid settings")
    };
    let database = downstream("database");
    database.allow_injection();
    let app = App {
        work: lane("work"),
        db: lane("db"),
        database,
        scheduler,
        ended: Arc::default(),
        ran_ns: Arc::default(),
    };
    Router::new()
        .route("/", get(|| async { "ok" }))
        .route("/work", get(work))
        .route("/db", get(db))
        .route("/spin", get(spin))
        .route("/worked", get(worked))
        .layer(TraceLayer::new().route(|request| {
            let path = request.extensions.get::<MatchedPath>();
            path.map(MatchedPath::as_str)
        }))
        .with_state(app)
}

/// A job that sleeps, in the lane `work`.
async fn work(State(app): State<App>, Query(span): Query<Span>) -> &'static str {
    let (ended, ran_ns) = (Arc::clone(&app.ended), Arc::clone(&app.ran_ns));
    let job = app.scheduler.job("work", move |_| {
        let (ended, ran_ns) = (Arc::clone(&ended), Arc::clone(&ran_ns));
        async move {
            let began = Instant::now();
            tokio::time::sleep(Duration::from_micros(span.us)).await;
            ran_ns.fetch_add(began.elapsed().as_nanos() as u64, Relaxed);
            ended.fetch_add(1, Relaxed);
            Ok::<_, std::io::Error>(())
        }
    });
    let job = job.lane(&app.work).submit().expect("has room");
    job.await.expect("does not fail");
    "done"
}

/// A job that calls the database, in the lane `db`.
async fn db(State(app): State<App>) -> &'static str {
    let database = app.database;
    let job = app.scheduler.job("query", move |_| async move {
        let query = async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok::<_, std::io::Error>(())
        };
        database.call(query).await
    });
    let job = job.lane(&app.db).submit().expect("has room");
    job.await.expect("does not fail");
    "done"
}

/// Computes on the worker.
async fn spin(Query(span): Query<Span>) -> String {
    let mut state = 1_u64;
    // A number of steps and not a span of time, so that more work takes more CPU however busy the machine is.
    for step in 0..span.us * 100 {
        state = std::hint::black_box(
            state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(step),
        );
    }
    state.to_string()
}

async fn worked(State(app): State<App>) -> String {
    let ran_ns = app.ran_ns.load(Relaxed);
    format!("{} {ran_ns}", app.ended.load(Relaxed))
}
