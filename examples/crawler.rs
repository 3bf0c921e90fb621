//! Jobs that submit jobs: a crawler that has at most five pages under way and fetches none twice.
//!
//! ```text
//! cargo run --release --example crawler
//! ```

use std::{
    collections::HashSet,
    error::Error,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ax_probe::Probe;
use ax_scheduler::{JobContext, Lane, Scheduler, SubmitError};
use tokio::{sync::mpsc, time::sleep};

/// How long a page takes.
pub const FETCH: Duration = Duration::from_millis(20);

/// Pages that are fetched at once.
pub const LIMIT: usize = 5;

#[derive(Clone)]
struct Crawler {
    ax: Scheduler,
    lane: Lane,
    pages: u32,
    seen: Arc<Mutex<HashSet<u32>>>,
    /// Each job holds one: when the last is gone, the crawl has ended.
    fetched: mpsc::UnboundedSender<u32>,
}

impl Crawler {
    /// Submits a page, unless somebody did.
    fn visit(&self, page: u32) -> Result<(), SubmitError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.insert(page) {
            let crawler = self.clone();
            self.ax
                .job("fetch_page", move |_: JobContext| crawler.fetch(page))
                .lane(&self.lane)
                .submit()?;
        }
        Ok(())
    }

    async fn fetch(self, page: u32) -> Result<(), Box<dyn Error + Send + Sync>> {
        for link in self.links_of(page).await? {
            self.visit(link)?;
        }
        self.fetched.send(page)?;
        Ok(())
    }

    /// Stands for an HTTP request: a site in which every page links to three others, so that most are linked often.
    async fn links_of(&self, page: u32) -> io::Result<[u32; 3]> {
        sleep(FETCH).await;
        Ok([page * 2 + 1, page * 2 + 2, page / 3].map(|link| link % self.pages))
    }
}

/// Crawls a site of so many pages from its first. Returns the pages in the order in which they were fetched.
///
/// # Errors
///
/// When the lane cannot be opened, or takes no job.
pub async fn run(pages: u32) -> Result<Vec<u32>, Box<dyn Error + Send + Sync>> {
    let ax = Scheduler::new();
    let lane = ax.lane("crawl").limit(LIMIT).open()?;
    let (fetched, mut found) = mpsc::unbounded_channel();
    let crawler = Crawler {
        ax,
        lane,
        pages,
        seen: Arc::default(),
        fetched,
    };
    crawler.visit(0)?;
    drop(crawler);
    let mut order = Vec::new();
    while let Some(page) = found.recv().await {
        order.push(page);
    }
    Ok(order)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let _probe = Probe::builder("crawler").install()?;
    let order = run(1_000).await?;
    println!("{} pages fetched, at most {LIMIT} at once", order.len());
    Ok(())
}
