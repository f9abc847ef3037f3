//! A program whose system calls are counted, and that is killed at one of them.
//!
//! ptrace(2) stops every thread of it before each call. At the call with the wanted number, counted
//! over all threads, the program is killed: the call is not carried out, and nothing comes after it.

#![allow(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::process::{ChildStdout, Command};
use std::sync::mpsc;
use std::thread::JoinHandle;

use libc::{c_int, c_long, c_void, pid_t};
use rustix::process::{Pid, Signal, kill_process};

/// The calls that change something that outlives the process.
pub const CHANGES: &[c_long] = &[
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_syncfs,
    libc::SYS_fallocate,
    libc::SYS_ftruncate,
    libc::SYS_ioctl,
    libc::SYS_openat,
    libc::SYS_mkdirat,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlinkat,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_fchmodat,
    libc::SYS_chmod,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_bind,
    libc::SYS_flock,
];

/// A program under watch. Ends, with how many calls it made, when the program does.
pub type Watch = JoinHandle<u64>;

/// Starts a program, to be killed at its call number `kill_at` of those in `counted`, counted from 1. Its
/// standard output is a pipe.
// It is waited for below, with its threads.
#[allow(clippy::zombie_processes)]
pub fn start(
    mut command: Command,
    counted: &'static [c_long],
    kill_at: Option<u64>,
) -> (ChildStdout, Watch) {
    let (tell, told) = mpsc::channel();
    // All of ptrace has to come from the thread whose child it is.
    let watch = std::thread::spawn(move || {
        // SAFETY: ptrace may be called between fork and exec.
        unsafe {
            command.pre_exec(|| check(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0)));
        }
        let mut child = command.spawn().expect("the program");
        let main = child.id() as pid_t;
        tell.send(child.stdout.take().expect("a pipe"))
            .expect("it is wanted");
        watch(main, counted, kill_at)
    });
    (told.recv().expect("it starts"), watch)
}

fn check(result: c_long) -> std::io::Result<()> {
    match result {
        -1 => Err(std::io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn watch(main: pid_t, counted: &[c_long], kill_at: Option<u64>) -> u64 {
    let mut calls = 0;
    let mut is_new = true;
    loop {
        let mut status: c_int = 0;
        // Only what this thread has started, and traces.
        let flags = libc::__WALL | libc::__WNOTHREAD;
        // SAFETY: `status` is there to be written.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, flags) };
        if pid == -1 {
            // Nothing is left.
            return calls;
        }
        if !libc::WIFSTOPPED(status) {
            continue;
        }
        let signal = libc::WSTOPSIG(status);
        if is_new {
            // Stopped by its exec, before its first call.
            is_new = false;
            set_options(pid);
        } else if signal == libc::SIGTRAP | 0x80
            && entered(pid).is_some_and(|call| counted.contains(&call))
        {
            calls += 1;
            if Some(calls) == kill_at {
                let main = Pid::from_raw(main).expect("a process");
                let _ = kill_process(main, Signal::KILL);
                continue;
            }
        }
        let is_ours = signal & !0x80 == libc::SIGTRAP || signal == libc::SIGSTOP;
        go_on(pid, if is_ours { 0 } else { signal });
    }
}

fn set_options(pid: pid_t) {
    let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
    // SAFETY: no memory is handed over.
    let set = unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0, options as c_long) };
    check(set).expect("options of ptrace");
}

/// Lets a thread run up to its next call. It may have been killed meanwhile.
fn go_on(pid: pid_t, signal: c_int) {
    // SAFETY: no memory is handed over.
    let _ = unsafe { libc::ptrace(libc::PTRACE_SYSCALL, pid, 0, c_long::from(signal)) };
}

/// The number of the call that a thread is about to make, if it stopped for that.
fn entered(pid: pid_t) -> Option<c_long> {
    // SAFETY: all zeros is a value of it.
    let mut info: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
    let size = size_of_val(&info);
    let info_at = (&raw mut info).cast::<c_void>();
    // SAFETY: the kernel writes at most `size` bytes, which are there.
    let got = unsafe { libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, pid, size, info_at) };
    if got <= 0 || info.op != libc::PTRACE_SYSCALL_INFO_ENTRY {
        return None;
    }
    // SAFETY: `op` says that this is the part of the union that was written.
    Some(unsafe { info.u.entry.nr } as c_long)
}
