//! Large results page by page (F80), under paused time.

use std::{
    cell::{Cell, RefCell},
    time::Duration,
};

use ax_scheduler::{Page, RowCounts, for_each_row, pages};
use tokio::time::{Instant, sleep};

const CALL: Duration = Duration::from_millis(20);
const FETCH: Duration = Duration::from_millis(50);

/// A row that knows how many of it there are.
struct Row<'a> {
    number: u32,
    alive: &'a Cell<usize>,
}

impl<'a> Row<'a> {
    fn new(number: u32, alive: &'a Cell<usize>, most: &Cell<usize>) -> Self {
        alive.set(alive.get() + 1);
        most.set(most.get().max(alive.get()));
        Self { number, alive }
    }
}

impl Drop for Row<'_> {
    fn drop(&mut self) {
        self.alive.set(self.alive.get() - 1);
    }
}

#[tokio::test(start_paused = true)]
async fn memory_is_one_page_and_a_window_however_many_rows_there_are() {
    let (alive, most) = (Cell::new(0), Cell::new(0));
    let (under_way, most_under_way) = (Cell::new(0_usize), Cell::new(0));
    let seen = RefCell::new(vec![0_u8; 50_000]);
    let rows = pages(0, async |page: u32| {
        sleep(FETCH).await;
        let rows = (page * 500..(page + 1) * 500).map(|number| Row::new(number, &alive, &most));
        let next = (page < 99).then_some(page + 1);
        Ok::<_, ()>(Page {
            rows: rows.collect(),
            next,
        })
    });
    let began = Instant::now();
    let counts = for_each_row(20, rows, async |row: Row<'_>| {
        under_way.set(under_way.get() + 1);
        most_under_way.set(most_under_way.get().max(under_way.get()));
        sleep(CALL).await;
        under_way.set(under_way.get() - 1);
        seen.borrow_mut()[row.number as usize] += 1;
        if row.number % 1_000 == 7 {
            Err(())
        } else {
            Ok(())
        }
    });
    let counts = counts.await;
    assert_eq!(
        counts,
        Ok(RowCounts {
            succeeded: 49_950,
            failed: 50
        })
    );
    assert!(seen.borrow().iter().all(|times| *times == 1));
    assert_eq!((most_under_way.get(), alive.get()), (20, 0));
    assert!(most.get() <= 500 + 20, "{} rows at once", most.get());
    // A page is 25 windows of calls; its fetch goes on beside the last one.
    let page = FETCH + 25 * CALL;
    assert!(began.elapsed() <= 100 * page, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_page_that_cannot_be_fetched_ends_it_after_the_calls_under_way() {
    let ended = Cell::new(0);
    let rows = pages(0, async |page: u32| {
        if page == 2 {
            return Err("gone");
        }
        Ok(Page {
            rows: vec![page; 30],
            next: Some(page + 1),
        })
    });
    let stopped = for_each_row(20, rows, async |_| {
        sleep(CALL).await;
        ended.set(ended.get() + 1);
        Ok::<_, ()>(())
    });
    assert_eq!(stopped.await, Err("gone"));
    assert_eq!(ended.get(), 60);
}

#[tokio::test(start_paused = true)]
async fn empty_pages_are_passed_over() {
    let rows = pages(0, async |page: u32| {
        let rows = vec![page; if page.is_multiple_of(2) { 0 } else { 3 }];
        Ok::<_, ()>(Page {
            rows,
            next: (page < 5).then_some(page + 1),
        })
    });
    let counts = for_each_row(0, rows, async |_| Ok::<_, ()>(())).await;
    assert_eq!(
        counts,
        Ok(RowCounts {
            succeeded: 9,
            failed: 0
        })
    );
}
