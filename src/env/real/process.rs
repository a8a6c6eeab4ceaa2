//! Processes of this machine: what the bench wants to know of servers, and how it starts its own.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// CPU time that a process has used, user and kernel, with all its threads.
pub fn cpu_time(process: u32) -> io::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The second field is the program's name in parentheses and may hold anything.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks: Option<u64> = fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().ok()).sum();
    let ticks = ticks.ok_or(io::ErrorKind::InvalidData)?;
    // SAFETY: reads a constant of the system.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    Ok(Duration::from_nanos(ticks * 1_000_000_000 / per_second))
}

/// Anonymous memory that a process holds, in bytes: without mapped files.
pub fn anonymous_memory(process: u32) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    bytes_of(&status, "RssAnon:")
}

/// Files, sockets and the like that a process has open.
pub fn open_files(process: u32) -> io::Result<usize> {
    fs::read_dir(format!("/proc/{process}/fd")).map(Iterator::count)
}

/// Memory that could be used, in bytes: what is free, and what files' pages hold that can be dropped.
pub fn available_memory() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    bytes_of(&text, "MemAvailable:")
}

/// Memory of this machine in bytes.
pub fn memory() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    bytes_of(&text, "MemTotal:")
}

/// The line `name` of one of the kernel's lists, which counts in KiB.
fn bytes_of(list: &str, name: &str) -> io::Result<u64> {
    let line = list.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Has this process give large buffers back to the system once they are freed. By default the C library's allocator
/// takes every large buffer that is freed for a sign that more of its size will be wanted and keeps up to twice as much:
/// 40 connections with frames of 15 MB left 300 MB behind, with this 2 to 7 MB. Buffers of the usual work are smaller
/// and stay.
pub fn give_back_large_buffers() {
    /// From this size on a buffer is a mapping of its own.
    #[cfg(target_env = "gnu")]
    const LARGE_BYTES: libc::c_int = 4 << 20;
    /// Free bytes at the heap's end above which they go back.
    #[cfg(target_env = "gnu")]
    const FREE_BYTES_MAX: libc::c_int = 8 << 20;
    // SAFETY: changes two numbers of the allocator; either call may be refused, which only leaves things as they are.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, FREE_BYTES_MAX);
    }
}

/// Lets this process open as many files as the system allows it to; returns how many that is. Shells and service managers
/// mostly start programs with 1,024, for the sake of those that use `select`, and allow hundreds of thousands. A broker
/// has one open for each connection, each gigabyte of its log, and up to a thousand of its queues.
///
/// # Errors
/// The system's; the limit is then what it was.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills the structure, which outlives the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: the kernel only reads the structure, which outlives the call.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(limit.rlim_cur)
}

/// The process of this user that listens on a TCP port.
pub fn listening_on(port: u16) -> Option<u32> {
    const LISTEN: &str = "0A";
    let mut sockets = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let Ok(table) = fs::read_to_string(table) else { continue };
        for line in table.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, local, _, state, _, _, _, _, _, inode, ..] = fields[..] else { continue };
            let own = local.rsplit(':').next().and_then(|port| u16::from_str_radix(port, 16).ok());
            if state == LISTEN && own == Some(port) {
                sockets.push(PathBuf::from(format!("socket:[{inode}]")));
            }
        }
    }
    let processes = fs::read_dir("/proc").ok()?.flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).find(|process| {
        let descriptors = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        descriptors.into_iter().any(|entry| fs::read_link(entry.path()).is_ok_and(|target| sockets.contains(&target)))
    })
}

/// How long the disk takes to make 4 KiB of a preallocated file survive a power cut, `count` times one after the other.
pub fn sync_times(path: &Path, count: usize) -> io::Result<Vec<Duration>> {
    const PIECE: usize = 4096;
    let file = fs::OpenOptions::new().create(true).truncate(true).write(true).open(path)?;
    for piece in 0..count {
        file.write_all_at(&[1; PIECE], (piece * PIECE) as u64)?;
    }
    file.sync_all()?;
    let mut times = Vec::with_capacity(count);
    for piece in 0..count {
        let start = Instant::now();
        file.write_all_at(&[2; PIECE], (piece * PIECE) as u64)?;
        file.sync_data()?;
        times.push(start.elapsed());
    }
    Ok(times)
}

/// CPUs this process may use.
pub fn cpus() -> Vec<usize> {
    // SAFETY: the kernel fills the set we own, whose size is passed; an all-zero set is valid.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        set
    };
    // SAFETY: every index is below the size of the set.
    (0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect()
}

/// Runs a process (0: this one) on one CPU only. Threads it starts later inherit that.
pub fn pin(process: u32, cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the index is below the size of the set (checked above), which the kernel only reads; an all-zero set is
    // valid.
    let done = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(process as libc::pid_t, size_of::<libc::cpu_set_t>(), &set)
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Starts a process that is told to end when this one ends, whatever ends it.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    // SAFETY: between fork and exec only this one system call is made, which takes no memory.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    command.spawn()
}

/// Asks a process that we started to end.
pub fn terminate(child: &Child) {
    // SAFETY: no memory is passed. The child has not been waited for, so its number is still its own.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C and SIGTERM end waits and set [`interrupted`] instead of ending the process.
pub fn catch_interrupts() {
    extern "C" fn on_signal(_: libc::c_int) {
        INTERRUPTED.store(true, Ordering::Relaxed);
    }
    let handler: extern "C" fn(libc::c_int) = on_signal;
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only stores into an atomic. Without SA_RESTART the calls it interrupts return.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as libc::sighandler_t;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// Whether Ctrl-C or SIGTERM came after [`catch_interrupts`].
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
