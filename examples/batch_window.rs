//! A loop of awaits and what takes its place: the same calls through a window, each with its own outcome.
//!
//! ```text
//! cargo run --release --example batch_window
//! ```

use std::{
    error::Error,
    time::{Duration, Instant},
};

use ax_probe::Probe;
use ax_scheduler::{downstream, window};
use tokio::time::sleep;

/// How long a call takes.
pub const CALL: Duration = Duration::from_millis(20);

/// Calls under way at once.
pub const WINDOW: usize = 20;

/// Asks for a price; the thirteenth of every hundred is not known.
async fn price(article: u32) -> Result<u32, String> {
    sleep(CALL).await;
    if article % 100 == 13 {
        Err(format!("article {article} has no price"))
    } else {
        Ok(article * 3)
    }
}

/// One after the other: every call waits for the one before.
pub async fn one_by_one(articles: u32) -> Vec<Result<u32, String>> {
    let mut prices = Vec::new();
    for article in 0..articles {
        prices.push(price(article).await);
    }
    prices
}

/// Through a window. The outcomes are in the order of the articles, and one failure is one article's.
pub async fn run(articles: u32) -> Vec<Result<u32, String>> {
    let catalogue = downstream("catalogue");
    let ask = |article| async move { catalogue.call(price(article)).await };
    window(WINDOW, 0..articles, ask).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let _probe = Probe::builder("batch-window").install()?;
    let began = Instant::now();
    let serial = one_by_one(100).await;
    println!("one by one         {:?}", began.elapsed());
    let began = Instant::now();
    let windowed = run(100).await;
    println!("a window of {WINDOW}     {:?}", began.elapsed());
    let failed = windowed.iter().filter(|price| price.is_err()).count();
    println!(
        "same outcomes: {}, of which {failed} failed",
        serial == windowed
    );
    Ok(())
}
