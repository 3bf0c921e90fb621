//! The report in a headless browser: nothing on its console, nothing leaves it, and pictures of it. `AX_PICTURES=FOLDER` keeps
//! them, to be looked at.

use std::{
    env,
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    fixture, run, said,
    support::{find_program, run_to_end},
    with_stacks,
};

/// How a page is looked at.
#[derive(Clone, Copy)]
struct Look {
    name: &'static str,
    width: u32,
    height: u32,
    dark: bool,
}

/// A phone and a desk, by day and by night.
const LOOKS: [Look; 4] = [
    Look::new("phone-light", 390, false),
    Look::new("phone-dark", 390, true),
    Look::new("desktop-light", 1280, false),
    Look::new("desktop-dark", 1280, true),
];

impl Look {
    const fn new(name: &'static str, width: u32, dark: bool) -> Self {
        Self {
            name,
            width,
            height: 3_000,
            dark,
        }
    }
}

/// What a browser said and did.
struct Seen {
    console: String,
    /// What the page asked for. The browser itself asks for this and that, too.
    requests: Vec<String>,
    picture: PathBuf,
}

fn browse(browser: &Path, page: &Path, look: Look, folder: &Path) -> Seen {
    let profile = tempfile::tempdir().expect("a folder");
    let picture = folder.join(look.name).with_extension("png");
    let log = profile.path().join("net.json");
    let mut command = Command::new(browser);
    command.args([
        "--headless",
        "--disable-gpu",
        "--hide-scrollbars",
        "--enable-logging=stderr",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        // Whatever a page asks for goes nowhere; the container of a test has no user namespaces for the sandbox.
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--no-sandbox",
    ]);
    let scheme = if look.dark { "0" } else { "1" };
    command.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command.arg(format!("--log-net-log={}", log.display()));
    command.arg(format!("--window-size={},{}", look.width, look.height));
    command.arg(format!("--screenshot={}", picture.display()));
    command.arg(format!("file://{}", page.display()));
    let console = said(&run_to_end(&mut command, 0));
    let lines = console.lines().filter(|line| line.contains(":CONSOLE"));
    Seen {
        console: lines.collect::<Vec<_>>().join("\n"),
        requests: requests(&fs::read_to_string(&log).expect("the browser writes it")),
        picture,
    }
}

/// The addresses in the browser's log of its network, an event a line, that were asked for by a page.
fn requests(log: &str) -> Vec<String> {
    let of_a_page = |line: &&str| {
        line.contains("\"initiator\":\"") && !line.contains("\"initiator\":\"not an origin\"")
    };
    let url = |line: &str| {
        let (_, url) = line.split_once("\"url\":\"")?;
        Some(url.split_once('"')?.0.to_owned())
    };
    log.lines().filter(of_a_page).filter_map(url).collect()
}

/// Width and height of a PNG.
fn size(picture: &Path) -> (u32, u32) {
    let mut head = [0; 24];
    let mut file = File::open(picture).expect("there is a picture");
    file.read_exact(&mut head).expect("has a header");
    let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
    (number(16), number(20))
}

#[test]
fn a_browser_shows_the_report_without_a_complaint_or_a_request() {
    let Some(browser) = find_program("chromium") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let kept = env::var_os("AX_PICTURES").map(PathBuf::from);
    let pictures = kept.as_deref().unwrap_or(folder.path());
    let page = folder.path().join("page.html");
    let report = |file: &Path| {
        let output = run("report FILE", file, folder.path(), 0);
        String::from_utf8(output.stdout).expect("is text")
    };
    fs::write(&page, report(&fixture())).expect("writes");
    let plain = browse(&browser, &page, Look::new("plain", 1280, false), pictures);
    assert_eq!(plain.console, "");
    assert_eq!(plain.requests, [""; 0]);

    let html = report(&with_stacks());
    fs::write(&page, &html).expect("writes");
    let mut drawn = Vec::new();
    for look in LOOKS {
        let seen = browse(&browser, &page, look, pictures);
        assert_eq!(seen.console, "", "{}", look.name);
        assert_eq!(seen.requests, [""; 0], "{}", look.name);
        assert_eq!(size(&seen.picture), (look.width, look.height));
        drawn.push(fs::read(&seen.picture).expect("reads"));
    }
    assert_ne!(drawn[0], drawn[1], "dark is not light");
    assert_ne!(drawn[2], drawn[3], "dark is not light");

    // The same page with what it must never have: its own policy refuses it, and without the policy this test sees it.
    let attack = "<img src='http://x.test/a.png'><script>1</script></body>";
    let attacked = html.replace("</body>", attack);
    fs::write(&page, &attacked).expect("writes");
    let seen = browse(
        &browser,
        &page,
        Look::new("attack", 1280, false),
        folder.path(),
    );
    assert!(
        seen.console.matches("Content Security Policy").count() >= 2,
        "{}",
        seen.console
    );
    assert_eq!(seen.requests, [""; 0]);
    fs::write(&page, attacked.replace("Content-Security-Policy", "X-None")).expect("writes");
    let seen = browse(
        &browser,
        &page,
        Look::new("bare", 1280, false),
        folder.path(),
    );
    assert_eq!(seen.requests, ["http://x.test/a.png"]);
}
