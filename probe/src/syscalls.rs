//! What a thread sleeps for in the kernel, told by the system call that it is in.
//!
//! The numbers are those of the architecture that this was built for; on others the call has no name.

use std::fs;

use ax_wire::sample::KernelWait;

/// What the thread sleeps for; `None` while it runs, and where the kernel does not say. About 10 us.
pub(crate) fn waits_in(tid: u32) -> Option<KernelWait> {
    let text = fs::read_to_string(format!("/proc/self/task/{tid}/syscall")).ok()?;
    parse(&text)
}

/// `running`, or the number of the call and its arguments; -1 for a sleep outside of system calls.
fn parse(text: &str) -> Option<KernelWait> {
    let number = text.split_ascii_whitespace().next()?;
    if number == "running" {
        return None;
    }
    let number: i64 = number.parse().ok()?;
    Some(if number < 0 {
        KernelWait::Memory
    } else {
        named(number)
    })
}

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
fn named(number: i64) -> KernelWait {
    const CALLS: &[(KernelWait, &[i64])] = &[
        (KernelWait::Futex, &[libc::SYS_futex, libc::SYS_futex_waitv]),
        (
            KernelWait::Sleep,
            &[libc::SYS_nanosleep, libc::SYS_clock_nanosleep],
        ),
        (
            KernelWait::Poll,
            &[
                libc::SYS_epoll_pwait,
                libc::SYS_epoll_pwait2,
                libc::SYS_ppoll,
                libc::SYS_pselect6,
            ],
        ),
        (
            KernelWait::Read,
            &[
                libc::SYS_read,
                libc::SYS_readv,
                libc::SYS_pread64,
                libc::SYS_preadv,
            ],
        ),
        (
            KernelWait::Write,
            &[
                libc::SYS_write,
                libc::SYS_writev,
                libc::SYS_pwrite64,
                libc::SYS_pwritev,
                libc::SYS_sendfile,
                libc::SYS_splice,
                libc::SYS_copy_file_range,
            ],
        ),
        (
            KernelWait::Sync,
            &[
                libc::SYS_fsync,
                libc::SYS_fdatasync,
                libc::SYS_sync_file_range,
                libc::SYS_msync,
            ],
        ),
        (
            KernelWait::File,
            &[
                libc::SYS_openat,
                libc::SYS_newfstatat,
                libc::SYS_statx,
                libc::SYS_fstat,
                libc::SYS_unlinkat,
                libc::SYS_mkdirat,
                libc::SYS_getdents64,
                libc::SYS_readlinkat,
                libc::SYS_ftruncate,
                libc::SYS_fallocate,
            ],
        ),
        (KernelWait::FileLock, &[libc::SYS_flock, libc::SYS_fcntl]),
        (
            KernelWait::Socket,
            &[
                libc::SYS_connect,
                libc::SYS_accept,
                libc::SYS_accept4,
                libc::SYS_recvfrom,
                libc::SYS_recvmsg,
                libc::SYS_recvmmsg,
                libc::SYS_sendto,
                libc::SYS_sendmsg,
                libc::SYS_sendmmsg,
            ],
        ),
        (KernelWait::Child, &[libc::SYS_wait4, libc::SYS_waitid]),
    ];
    // Calls that newer architectures do without.
    #[cfg(target_arch = "x86_64")]
    const OLD: &[(KernelWait, &[i64])] = &[
        (
            KernelWait::Poll,
            &[libc::SYS_epoll_wait, libc::SYS_poll, libc::SYS_select],
        ),
        (
            KernelWait::File,
            &[
                libc::SYS_open,
                libc::SYS_stat,
                libc::SYS_lstat,
                libc::SYS_rename,
                libc::SYS_unlink,
            ],
        ),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    const OLD: &[(KernelWait, &[i64])] = &[];
    let mut all = CALLS.iter().chain(OLD);
    all.find(|(_, numbers)| numbers.contains(&number))
        .map_or(KernelWait::Other, |(waits_in, _)| *waits_in)
}

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
fn named(_number: i64) -> KernelWait {
    KernelWait::Other
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use super::*;

    #[test]
    fn a_running_thread_sleeps_for_nothing() {
        assert_eq!(parse("running\n"), None);
        assert_eq!(parse("-1 0x7ffd 0x7f\n"), Some(KernelWait::Memory));
        assert_eq!(parse(""), None);
        assert_eq!(waits_in(u32::MAX), None);
    }

    /// A lock, which is what tells lock contention from a call that blocks.
    #[test]
    fn a_thread_that_waits_for_a_channel_is_in_a_futex() {
        let own = waits_in(rustix::thread::gettid().as_raw_pid().unsigned_abs());
        // It reads its own file.
        assert!(own.is_none() || own == Some(KernelWait::Read), "{own:?}");
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let waiting = thread::spawn(move || {
            let tid = rustix::thread::gettid().as_raw_pid().unsigned_abs();
            tell.send(tid).expect("is awaited");
            let _ = ended.recv();
        });
        let tid = told.recv().expect("says so");
        // It may need a moment to get there, and a sandbox may hide it.
        let found = (0..200).find_map(|_| {
            thread::yield_now();
            waits_in(tid).filter(|waits_in| *waits_in == KernelWait::Futex)
        });
        let readable = fs::read_to_string(format!("/proc/self/task/{tid}/syscall")).is_ok();
        drop(end);
        waiting.join().expect("ends");
        assert!(found.is_some() || !readable, "{found:?}");
    }
}
