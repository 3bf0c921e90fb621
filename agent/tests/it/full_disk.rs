//! A folder of snapshots that is full or cannot be written to: said with what to do about it, and nobody else is hurt.
//!
//! The file system is a small one of our own, mounted in a mount namespace that only a copy of this program sees.

use std::{env, fs, path::Path, process::Command, time::Duration};

use ax_wire::view::ServiceView;

use crate::{
    common::{TestAgent, hello, sample},
    evidence::{files, report, stall, view_where},
};

const CHILD: &str = "AX_TEST_OWN_MOUNTS";

#[test]
fn a_full_or_read_only_disk_is_said_and_hurts_nobody() {
    let root = rustix::process::geteuid().is_root();
    let own_mounts = root && run("unshare", &["-m", "true"]);
    if !own_mounts {
        println!("skipped: needs root and a mount namespace of its own");
        let required = env::var_os("AX_REQUIRE_ALL").is_some_and(|value| value == "1");
        assert!(
            !required,
            "AX_REQUIRE_ALL=1 and no mount namespace is to be had"
        );
        return;
    }
    let child = Command::new("unshare")
        .arg("-m")
        .arg(env::current_exe().expect("has a path"))
        .args([
            "--ignored",
            "--exact",
            "--nocapture",
            "full_disk::with_own_mounts",
        ])
        .env(CHILD, "1")
        .status();
    assert!(child.expect("starts").success());
}

fn run(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program).args(arguments).status();
    status.is_ok_and(|status| status.success())
}

fn mount(options: &str, folder: &Path) {
    let folder = folder.to_str().expect("is text");
    let mounted = run("mount", &["-t", "tmpfs", "-o", options, "tmpfs", folder]);
    assert!(mounted, "mount -o {options}");
}

#[tokio::test]
#[ignore = "the other half of the test here, which starts it"]
async fn with_own_mounts() {
    if env::var_os(CHILD).is_none() {
        return;
    }
    let agent = TestAgent::with(|config| {
        config.snapshots.cooldown = Duration::ZERO;
        let folder = config.snapshots.folder.as_ref().expect("is named");
        fs::create_dir(folder).expect("makes");
        mount("size=64k,mode=0700", folder);
    });
    let folder = agent.folder().join("snapshots");
    let filler = folder.join("filler");
    let (hurt, other) = (hello("checkout"), hello("search"));
    let (mut viewer, mut others_viewer) = (agent.viewer().await, agent.viewer().await);
    let mut service = agent.service(&hurt).await;
    let mut second = 1;
    service.send_sample(sample(second)).await;
    let failed = |count| move |v: &ServiceView| v.snapshots_suppressed.failed_total == count;

    fs::write(&filler, vec![b'x'; 60 << 10]).expect("fits");
    report(&mut service, stall()).await;
    let view = view_where(&mut viewer, &mut service, &mut second, failed(1)).await;
    let full = view.snapshots_suppressed.last_reason.expect("is said");
    println!("full: {full}");
    assert!(
        full.contains("No space left") && full.contains("free some space"),
        "{full}"
    );
    let names: Vec<_> = fs::read_dir(&folder)
        .expect("is listed")
        .flatten()
        .collect();
    assert_eq!(names.len(), 1, "nothing unfinished stays: {names:?}");

    mount("remount,ro", &folder);
    report(&mut service, stall()).await;
    let view = view_where(&mut viewer, &mut service, &mut second, failed(2)).await;
    let read_only = view.snapshots_suppressed.last_reason.expect("is said");
    println!("read only: {read_only}");
    assert!(
        read_only.contains("Read-only") && read_only.contains("name a folder"),
        "{read_only}"
    );

    // Another service has its figures all the while.
    let mut others = agent.service(&other).await;
    let (mut sent, shown) = (0, |v: &ServiceView| v.summary.service == "search");
    let view = view_where(&mut others_viewer, &mut others, &mut sent, shown).await;
    assert_eq!(view.snapshots_suppressed.failed_total, 0);
    drop(others);

    mount("remount,rw", &folder);
    fs::remove_file(&filler).expect("removes");
    report(&mut service, stall()).await;
    let written = |v: &ServiceView| !v.snapshots.is_empty();
    view_where(&mut viewer, &mut service, &mut second, written).await;
    assert_eq!(files(&folder).len(), 1);
    agent.stop().await;
}
