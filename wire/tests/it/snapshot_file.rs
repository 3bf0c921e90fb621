//! Snapshot files: written once, for their owner alone, and refused with advice where the place is not right.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

use ax_wire::{
    InstanceId,
    hello::{ClockAnchor, Hello, PROTOCOL},
    incident::{IncidentId, Reason, SNAPSHOT_VERSION, Snapshot, SnapshotSummary, Writer},
    snapshot_file::{
        Access, MAX_SNAPSHOT_BYTES, SnapshotFileError, file_name, incident_of, prepare, read,
        remove_unfinished, summary, write,
    },
    view::AgentDropped,
};

fn snapshot(service: &str) -> Snapshot {
    Snapshot {
        version: SNAPSHOT_VERSION,
        written_unix_ns: 7,
        writer: Writer::Agent,
        hello: Hello {
            protocol: PROTOCOL,
            service: service.into(),
            instance: InstanceId::new_now(),
            pid: 42,
            process_start_unix_ns: 1,
            service_version: None,
            build_id: None,
            probe_version: "0.1.0".into(),
            cpus: 2,
            runtimes: Vec::new(),
            features: Vec::new(),
            clock: ClockAnchor {
                mono_ns: 0,
                unix_ns: 0,
            },
            stall_threshold_ns: 1,
            snapshot_threshold_ns: 2,
        },
        incident: None,
        reason: Reason::LastSeen,
        alerts: Vec::new(),
        view: None,
        types: Vec::new(),
        history: Vec::new(),
        observer_gaps: Vec::new(),
        agent_dropped: AgentDropped::default(),
        unknown: Vec::new(),
    }
}

fn write_one(folder: &Path, id: IncidentId) -> Result<SnapshotSummary, SnapshotFileError> {
    write(folder, Access::Private, id, &snapshot("checkout"), None)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("is there").permissions().mode() & 0o777
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("can be listed");
    let names = entries.map(|entry| entry.expect("is there").file_name());
    names
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

#[test]
fn a_file_is_its_owners_alone_and_comes_back() {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = temporary.path().join("state/ax/snapshots");
    let id = IncidentId::new_now();
    let told = write_one(&folder, id).expect("is written");
    let path = Path::new(&told.path);
    assert_eq!(
        (mode(path), mode(&folder), mode(folder.parent().expect("x"))),
        (0o600, 0o700, 0o700)
    );
    assert_eq!(names(&folder), [file_name("checkout", id)]);
    assert_eq!(summary(path).expect("is read"), told);
    let back = read(path).expect("is read");
    assert_eq!(
        (back.hello.service.as_str(), back.reason),
        ("checkout", Reason::LastSeen)
    );
}

#[test]
fn a_name_says_service_and_incident_whatever_the_service_is_called() {
    let id = IncidentId::new_now();
    for service in [
        "checkout",
        "",
        "../../etc/passwd\u{1b}[2J",
        &"ä".repeat(5_000),
    ] {
        let name = file_name(service, id);
        assert!(name.len() < 100, "{name}");
        assert!(
            !name
                .trim_end_matches(".json")
                .contains(['/', '.', '\u{1b}']),
            "{name}"
        );
        assert_eq!(incident_of(name.as_ref()), Some(id));
    }
    for strange in [
        "x.json",
        "notes.txt",
        "ää-ää.json",
        &format!("{id}.json"),
        &format!("a-{id}"),
    ] {
        assert_eq!(incident_of(strange.as_ref()), None, "{strange}");
    }
}

#[test]
fn what_is_already_there_stays() {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = temporary.path().join("snapshots");
    let id = IncidentId::new_now();
    let first = write_one(&folder, id).expect("is written");
    assert!(matches!(
        write_one(&folder, id),
        Err(SnapshotFileError::Exists { .. })
    ));
    assert_eq!(summary(Path::new(&first.path)).expect("is read"), first);

    // A link planted where the next file would go: neither followed nor replaced.
    let elsewhere = temporary.path().join("victim");
    fs::write(&elsewhere, "precious").expect("writes");
    let planted = IncidentId::new_now();
    symlink(&elsewhere, folder.join(file_name("checkout", planted))).expect("links");
    assert!(matches!(
        write_one(&folder, planted),
        Err(SnapshotFileError::Exists { .. })
    ));
    assert_eq!(fs::read_to_string(&elsewhere).expect("is read"), "precious");
    assert_eq!(names(&folder).len(), 2, "nothing unfinished is left");
}

#[test]
fn a_folder_that_is_a_link_or_open_to_others_is_refused_with_advice() {
    let temporary = tempfile::tempdir().expect("a folder");
    let id = IncidentId::new_now();
    let real = temporary.path().join("real");
    fs::create_dir(&real).expect("makes");
    let link = temporary.path().join("link");
    symlink(&real, &link).expect("links");
    let file = temporary.path().join("file");
    fs::write(&file, "").expect("writes");
    for path in [&link, &file] {
        let error = write_one(path, id).expect_err("is refused");
        assert!(
            matches!(error, SnapshotFileError::NotAFolder { .. }),
            "{error}"
        );
    }
    fs::set_permissions(&real, Permissions::from_mode(0o755)).expect("chmod");
    let error = write_one(&real, id).expect_err("is refused").to_string();
    assert!(error.contains("chmod 0700"), "{error}");
    assert_eq!(names(&real), [""; 0]);
    // A shared folder lets others enter, but neither list nor write.
    fs::set_permissions(&real, Permissions::from_mode(0o711)).expect("chmod");
    write(&real, Access::Shared, id, &snapshot("checkout"), None).expect("is written");
}

#[test]
fn each_fault_of_the_folder_is_said_before_the_first_snapshot() {
    let base = tempfile::tempdir().expect("a folder");
    let told = |folder: &Path| {
        let prepared = prepare(folder, Access::Private);
        prepared.expect_err("is wrong").to_string()
    };
    let missing = base.path().join("a/b/c");
    prepare(&missing, Access::Private).expect("parents are made");
    assert_eq!(mode(&missing), 0o700);
    let file = base.path().join("file");
    fs::write(&file, "").expect("is written");
    assert!(
        told(&file).contains("it is not a folder"),
        "{}",
        told(&file)
    );
    let below = file.join("snapshots");
    assert!(
        told(&below).contains("cannot make the folder"),
        "{}",
        told(&below)
    );
    assert!(
        told(&below).contains(&*file.to_string_lossy()),
        "{}",
        told(&below)
    );
    let dangling = base.path().join("link");
    symlink("/nonexistent", &dangling).expect("links");
    assert!(
        told(&dangling).contains("a link is not followed"),
        "{}",
        told(&dangling)
    );
    if rustix::process::geteuid().is_root() {
        // What root may not write to lies on a read-only disk; what is another's can be made.
        std::os::unix::fs::chown(&missing, Some(12_345), None).expect("root may");
        assert!(
            told(&missing).contains("it belongs to user 12345"),
            "{}",
            told(&missing)
        );
    } else {
        fs::set_permissions(&missing, Permissions::from_mode(0o500)).expect("is ours");
        assert!(
            told(&missing).contains("cannot write into the folder"),
            "{}",
            told(&missing)
        );
    }
}

#[test]
fn what_is_no_snapshot_is_said_to_be_none() {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = temporary.path().join("snapshots");
    let told = write_one(&folder, IncidentId::new_now()).expect("is written");
    let text = fs::read_to_string(&told.path).expect("is read");
    let newer = folder.join("newer.json");
    fs::write(&newer, text.replacen("\"version\":1", "\"version\":2", 1)).expect("writes");
    assert!(matches!(
        read(&newer),
        Err(SnapshotFileError::Newer { version: 2, .. })
    ));
    let half = folder.join("half.json");
    fs::write(&half, &text[..text.len() / 2]).expect("writes");
    assert!(matches!(
        read(&half),
        Err(SnapshotFileError::Malformed { .. })
    ));
    let long = folder.join("long.json");
    let sparse = fs::File::create(&long).expect("creates");
    sparse.set_len(MAX_SNAPSHOT_BYTES + 1).expect("grows");
    assert!(matches!(
        read(&long),
        Err(SnapshotFileError::TooLong { .. })
    ));
    let folder_error = read(&folder).expect_err("is refused").to_string();
    assert!(folder_error.contains("plain file"), "{folder_error}");
}

#[test]
fn only_old_unfinished_files_of_ours_are_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = |text: &str| folder.path().join(text);
    let id = IncidentId::new_now();
    let (old, fresh) = (
        name(&format!(".{id}.tmp")),
        name(".01890000-0000-7000-8000-000000000000.tmp"),
    );
    let foreign = name(".other.tmp");
    for path in [&old, &fresh, &foreign] {
        fs::write(path, "{").expect("writes");
    }
    let hours_ago = std::time::SystemTime::now() - std::time::Duration::from_hours(3);
    for path in [&old, &foreign] {
        let file = fs::File::options().write(true).open(path).expect("opens");
        file.set_modified(hours_ago).expect("is set");
    }
    assert_eq!(remove_unfinished(folder.path()).expect("is listed"), 1);
    assert!(!old.exists() && fresh.exists() && foreign.exists());
}
