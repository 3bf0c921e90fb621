//! Which of the connected services listens at an address: a URL names a port, and the service under load is whoever holds
//! the socket that listens there.
//!
//! The kernel lists the listening sockets of this network namespace by inode, and a process has them among its files.

use std::{fmt::Write as _, fs, io, net::SocketAddr};

use ax_wire::view::ServiceView;

use crate::event::now_unix_ns;

/// The state of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// How far the start of a process may be off between its own account and the kernel's.
const START_WITHIN_NS: u64 = 2_000_000_000;

/// What is known of a service and an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listens {
    Yes,
    No,
    /// And why that cannot be known.
    Unknown(String),
}

/// Whether a service listens at one of the addresses.
pub fn listens(view: &ServiceView, addresses: &[SocketAddr]) -> Listens {
    let pid = view.summary.pid;
    let started = match started_unix_ns(pid) {
        Ok(started) => started,
        Err(error) => return Listens::Unknown(format!("/proc/{pid} cannot be read: {error}")),
    };
    let off_ns = started.abs_diff(view.hello.process_start_unix_ns);
    if off_ns > START_WITHIN_NS {
        // The pid is that of the service's own namespace, and here somebody else has it.
        return Listens::Unknown(format!("process {pid} of this host is another one"));
    }
    match (sockets_of(pid), listening(addresses)) {
        (Err(error), _) => {
            Listens::Unknown(format!("files of process {pid} cannot be read: {error}"))
        }
        (_, Err(error)) => Listens::Unknown(format!("/proc/net/tcp cannot be read: {error}")),
        (Ok(own), Ok(listening)) => {
            if listening.iter().any(|inode| own.contains(inode)) {
                Listens::Yes
            } else {
                Listens::No
            }
        }
    }
}

/// Inodes of the sockets that a connection to one of the addresses would reach.
fn listening(addresses: &[SocketAddr]) -> io::Result<Vec<u64>> {
    let mut found = parse(&fs::read_to_string("/proc/net/tcp")?, addresses);
    // A kernel without IPv6 has no such file.
    if let Ok(text) = fs::read_to_string("/proc/net/tcp6") {
        found.extend(parse(&text, addresses));
    }
    Ok(found)
}

/// The inodes in one of those tables: `sl local_address rem_address st .. inode`, from the second line on.
fn parse(table: &str, addresses: &[SocketAddr]) -> Vec<u64> {
    let lines = table.lines().skip(1);
    lines
        .filter_map(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            let (host, port) = fields.get(1)?.split_once(':')?;
            let port = u16::from_str_radix(port, 16).ok()?;
            let reached = |address: &SocketAddr| {
                // By address only where it is written out: one of all zeros takes every one.
                let any = host.bytes().all(|digit| digit == b'0');
                port == address.port()
                    && (any || host == hex(address) || host == hex_mapped(address))
            };
            let listens = *fields.get(3)? == LISTEN && addresses.iter().any(reached);
            listens.then(|| fields.get(9)?.parse().ok())?
        })
        .collect()
}

/// An address as the kernel writes it: words of four bytes, each in the machine's own order.
fn hex(address: &SocketAddr) -> String {
    match address {
        SocketAddr::V4(v4) => words(&v4.ip().octets()),
        SocketAddr::V6(v6) => words(&v6.ip().octets()),
    }
}

/// An address of IPv4 in the table of IPv6.
fn hex_mapped(address: &SocketAddr) -> String {
    match address {
        SocketAddr::V4(v4) => words(&v4.ip().to_ipv6_mapped().octets()),
        SocketAddr::V6(v6) => words(&v6.ip().octets()),
    }
}

fn words(bytes: &[u8]) -> String {
    let mut text = String::new();
    for word in bytes.as_chunks::<4>().0 {
        // Writing to a string does not fail.
        let _ = write!(text, "{:08X}", u32::from_ne_bytes(*word));
    }
    text
}

/// Inodes of the sockets that a process has open.
fn sockets_of(pid: u32) -> io::Result<Vec<u64>> {
    let mut inodes = Vec::new();
    for file in fs::read_dir(format!("/proc/{pid}/fd"))? {
        // One that is closed meanwhile is no listener.
        let Ok(target) = fs::read_link(file?.path()) else {
            continue;
        };
        let inode: Option<u64> = target.to_str().and_then(|text| {
            let number = text.strip_prefix("socket:[")?.strip_suffix(']')?;
            number.parse().ok()
        });
        inodes.extend(inode);
    }
    Ok(inodes)
}

/// When a process began, reckoned as the probe does.
fn started_unix_ns(pid: u32) -> io::Result<u64> {
    const NS_PER_S: u64 = 1_000_000_000;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in brackets may hold anything; the 22nd field is the 20th after it.
    let ticks: Option<u64> = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.split_whitespace().nth(19)?.parse().ok());
    let ticks = ticks.ok_or(io::ErrorKind::InvalidData)?;
    let since_boot = ticks * (NS_PER_S / rustix::param::clock_ticks_per_second().max(1));
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let now_ns = now.tv_sec.cast_unsigned() * NS_PER_S + now.tv_nsec.cast_unsigned();
    Ok(now_unix_ns().saturating_sub(now_ns.saturating_sub(since_boot)))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::fixture;

    fn own() -> ServiceView {
        let mut view = fixture::healthy();
        view.summary.pid = std::process::id();
        view.hello.process_start_unix_ns = started_unix_ns(view.summary.pid).expect("our own");
        view
    }

    #[test]
    fn who_listens_is_told_from_who_does_not_and_from_what_cannot_be_known() {
        let address = |listener: &TcpListener| listener.local_addr().expect("has one");
        let here = TcpListener::bind("127.0.0.1:0").expect("a port");
        let everywhere = TcpListener::bind("0.0.0.0:0").expect("a port");
        let view = own();
        for listener in [&here, &everywhere] {
            let port = address(listener).port();
            let at = SocketAddr::from(([127, 0, 0, 1], port));
            assert_eq!(listens(&view, &[at]), Listens::Yes, "{at}");
        }
        let elsewhere = SocketAddr::from(([127, 0, 0, 2], address(&here).port()));
        assert_eq!(listens(&view, &[elsewhere]), Listens::No);
        let closed = address(&here);
        drop(here);
        assert_eq!(listens(&view, &[closed]), Listens::No);

        let mut other = own();
        other.hello.process_start_unix_ns -= 60_000_000_000;
        assert!(
            matches!(listens(&other, &[closed]), Listens::Unknown(why) if why.contains("another"))
        );
        other.summary.pid = u32::MAX;
        assert!(
            matches!(listens(&other, &[closed]), Listens::Unknown(why) if why.contains("read"))
        );
    }

    /// The table as the kernel writes it on a little-endian machine, with a connection beside the listeners.
    #[test]
    fn the_kernels_table_is_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0 100 0 0 10 0\n   \
            1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 4343 1 0 20 4 30 10 -1\n";
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        if cfg!(target_endian = "little") {
            assert_eq!(parse(table, &[at(8080)]), [4242]);
        }
        assert_eq!(parse(table, &[at(8081)]), Vec::<u64>::new());
        assert_eq!(parse("", &[at(8080)]), Vec::<u64>::new());
    }
}
