//! The database behind lane `db`: `SQLite` in a real file, used as services use one, through a pool of a few connections
//! and on blocking threads.
//!
//! The lane lets more jobs run than there are connections, so a burst waits for the pool: that is the run time of the
//! task `db_pool_wait`, and as many of it run as there are jobs that wait.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use ax_scheduler::{Downstream, PoolSample, downstream};
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections of the pool. `SQLite` has one writer at a time, so more would only move the wait into the kernel.
const CONNECTIONS: usize = 4;

/// Orders that are kept: about 1 MB, however long the demo runs.
const KEPT_ORDERS: i64 = 10_000;

/// Orders that a reading adds up.
const READ_ORDERS: i64 = 100;

/// How long a connection waits for the lock of another; a write takes less than a millisecond.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    CREATE TABLE orders (id INTEGER PRIMARY KEY, cents INTEGER NOT NULL);
";

const NEWEST_ORDERS: &str = "
    SELECT coalesce(sum(cents), 0) FROM (SELECT cents FROM orders ORDER BY id DESC LIMIT ?1)
";

/// A pool of connections to one database. Cheap to clone; the file goes with the last clone.
#[derive(Clone)]
pub(crate) struct Database {
    pool: Arc<Pool>,
    downstream: Downstream,
}

struct Pool {
    /// The connections that nobody uses. A lock and not a channel: it is held for a push or a pop.
    idle: Mutex<Vec<Connection>>,
    /// A permit for each of them, so that the wait for one is fair and asynchronous.
    permits: Arc<Semaphore>,
    /// Removed when dropped, after the connections that are in it.
    _folder: TempDir,
}

impl Database {
    /// Makes an empty database in a temporary folder.
    pub(crate) fn open() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("ax-demo-db-")
            .tempdir()
            .context("cannot make a temporary folder for the database")?;
        let file = folder.path().join("orders.sqlite");
        let connect = || {
            let connection = Connection::open(&file)?;
            connection.busy_timeout(BUSY_TIMEOUT)?;
            // Without it every order waits for the disk; what a crash takes with it is a demo's orders.
            connection.pragma_update(None, "synchronous", "OFF")?;
            Ok::<_, rusqlite::Error>(connection)
        };
        let first = connect().context("cannot open the database")?;
        first
            .execute_batch(SCHEMA)
            .context("cannot make the database's tables")?;
        let mut idle = vec![first];
        for _ in 1..CONNECTIONS {
            idle.push(connect().context("cannot open the database again")?);
        }
        let pool = Arc::new(Pool {
            idle: Mutex::new(idle),
            permits: Arc::new(Semaphore::new(CONNECTIONS)),
            _folder: folder,
        });
        let downstream = downstream("sqlite");
        downstream.allow_injection();
        let shown = Arc::downgrade(&pool);
        downstream.show_pool(move || {
            let idle = shown.upgrade()?.permits.available_permits();
            Some(PoolSample {
                in_use: (CONNECTIONS - idle) as u64,
                idle: idle as u64,
                // The downstream counts those that wait.
                waiting: None,
            })
        });
        Ok(Self { pool, downstream })
    }

    /// Writes an order down, and forgets the oldest beyond [`KEPT_ORDERS`], in one transaction.
    pub(crate) async fn insert_order(&self, cents: u32) -> anyhow::Result<()> {
        let connection = self.connection().await?;
        let insert = async {
            ax_probe::spawn_blocking("insert_order", move || {
                connection.with(|connection| {
                    let transaction = connection.transaction()?;
                    transaction.execute("INSERT INTO orders (cents) VALUES (?1)", [cents])?;
                    let last = transaction.last_insert_rowid();
                    transaction
                        .execute("DELETE FROM orders WHERE id <= ?1", [last - KEPT_ORDERS])?;
                    transaction.commit()
                })
            })
            .await?
            .context("cannot write the order down")
        };
        self.downstream.call(insert).await
    }

    /// What the newest orders come to, in cents.
    pub(crate) async fn newest_orders_cents(&self) -> anyhow::Result<i64> {
        let connection = self.connection().await?;
        let select = async {
            ax_probe::spawn_blocking("select_orders", move || {
                connection.with(|connection| {
                    connection.query_row(NEWEST_ORDERS, [READ_ORDERS], |row| row.get(0))
                })
            })
            .await?
            .context("cannot read the orders")
        };
        self.downstream.call(select).await
    }

    /// A connection of the pool, first come, first served.
    async fn connection(&self) -> anyhow::Result<Pooled> {
        let permits = Arc::clone(&self.pool.permits);
        let permit = ax_probe::spawn("db_pool_wait", permits.acquire_owned());
        let permit = self.downstream.wait(permit).await??;
        let mut idle = self
            .pool
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let connection = idle.pop().context("a permit without a connection")?;
        Ok(Pooled {
            connection: Some(connection),
            pool: Arc::clone(&self.pool),
            _permit: permit,
        })
    }
}

/// A connection in use. It goes back when this is dropped, which also a panic and a cancelled job do, and its permit
/// follows it.
struct Pooled {
    /// `None` only while it is dropped.
    connection: Option<Connection>,
    pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

impl Pooled {
    fn with<T>(
        mut self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let connection = self.connection.as_mut();
        work(connection.expect("only dropping takes it out"))
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let mut idle = self
            .pool
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        idle.extend(self.connection.take());
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[tokio::test]
    async fn more_callers_than_connections_wait_and_all_are_served() {
        let database = Database::open().expect("opens");
        let orders: Vec<_> = (0..CONNECTIONS as u32 * 5)
            .map(|cents| {
                let database = database.clone();
                tokio::spawn(async move { database.insert_order(cents).await })
            })
            .collect();
        for order in orders {
            order.await.expect("no panic").expect("is written");
        }
        let total = database.newest_orders_cents().await.expect("is read");
        assert_eq!(total, (0..20).sum::<i64>());
        assert_eq!(database.pool.permits.available_permits(), CONNECTIONS);
    }

    #[tokio::test]
    async fn the_file_is_real_and_goes_with_the_pool() {
        let database = Database::open().expect("opens");
        let file = {
            let idle = database.pool.idle.lock().expect("no panic");
            PathBuf::from(idle[0].path().expect("it has a file"))
        };
        assert!(file.is_file());
        drop(database);
        assert!(!file.parent().expect("has a folder").exists());
    }
}
