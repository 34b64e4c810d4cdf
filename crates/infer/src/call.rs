//! In which system call a task sleeps, where the recording has their entries.

/// What a sleeper waits at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// `futex(2)`: mutexes, conditions, semaphores, joining a thread.
    Lock,
    /// Reading, writing, or waiting until one of these is possible: pipes, sockets, files.
    Channel,
    /// Waiting for a child's end.
    Child,
    /// Any other.
    Other,
}

/// What an event that is called `sys_enter_NAME` enters.
pub(crate) fn entered(event: &str) -> Option<Call> {
    let name = event.strip_prefix("sys_enter_")?;
    Some(match name {
        "futex" | "futex_wait" | "futex_waitv" => Call::Lock,
        "read" | "readv" | "pread64" | "preadv" | "preadv2" | "write" | "writev" | "pwrite64" | "pwritev"
        | "pwritev2" => Call::Channel,
        "recvfrom" | "recvmsg" | "recvmmsg" | "sendto" | "sendmsg" | "sendmmsg" | "accept" | "accept4" | "connect" => {
            Call::Channel
        }
        "poll" | "ppoll" | "select" | "pselect6" | "epoll_wait" | "epoll_pwait" | "epoll_pwait2" | "splice"
        | "sendfile64" => Call::Channel,
        "wait4" | "waitid" | "waitpid" => Call::Child,
        _ => Call::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_say_what_is_waited_for() {
        let all = [
            "sys_enter_futex",
            "sys_enter_read",
            "sys_enter_epoll_wait",
            "sys_enter_wait4",
            "sys_enter_nanosleep",
            "read",
        ];
        let expected =
            [Some(Call::Lock), Some(Call::Channel), Some(Call::Channel), Some(Call::Child), Some(Call::Other), None];
        assert_eq!(all.map(entered), expected);
    }
}
