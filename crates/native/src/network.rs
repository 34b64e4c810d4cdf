//! Ports: TCP on the loopback interface, a connection a request.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{IntoRawFd, RawFd};

use schedlab_program::Request;

use crate::system::{self, check};

/// Where a port listens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listening {
    descriptor: RawFd,
    port: u16,
}

impl Listening {
    /// Listens on a free port.
    pub(crate) fn open() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let descriptor = listener.into_raw_fd();
        // As many clients as the kernel allows may wait to be taken.
        // SAFETY: our own listening socket.
        check(unsafe { libc::listen(descriptor, i32::from(i16::MAX)) })?;
        Ok(Self { descriptor, port })
    }

    /// Takes the next connection and reads its request.
    pub(crate) fn accept(self, buffer: &mut [u8]) -> io::Result<RawFd> {
        let client = self.take()?;
        read_all(client, buffer)?;
        Ok(client)
    }

    /// Takes the next connection.
    pub(crate) fn take(self) -> io::Result<RawFd> {
        loop {
            // SAFETY: our own listening socket; the client's address is not asked for.
            let taken = unsafe { libc::accept(self.descriptor, std::ptr::null_mut(), std::ptr::null_mut()) };
            match check(taken) {
                Ok(client) => {
                    no_delay(client);
                    return Ok(client);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::ECONNABORTED) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Listens no more.
    pub(crate) fn close(self) {
        close(self.descriptor);
    }

    /// Connects.
    pub(crate) fn connect(self) -> io::Result<RawFd> {
        // SAFETY: a new socket, and an address of the size that is said.
        let socket = unsafe {
            let socket = check(libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0))?;
            let mut address: libc::sockaddr_in = zeroed();
            address.sin_family = libc::AF_INET as libc::sa_family_t;
            address.sin_port = self.port.to_be();
            address.sin_addr.s_addr = u32::from(Ipv4Addr::LOCALHOST).to_be();
            let size = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            if let Err(error) = check(libc::connect(socket, (&raw const address).cast(), size)) {
                close(socket);
                return Err(error);
            }
            socket
        };
        no_delay(socket);
        Ok(socket)
    }

    /// Connects, sends a request and reads the reply.
    pub(crate) fn request(self, request: Request, buffer: &mut [u8]) -> io::Result<()> {
        let socket = self.connect()?;
        let done = write_all(socket, &buffer[..request.bytes as usize])
            .and_then(|()| read_all(socket, &mut buffer[..request.reply as usize]));
        leave(socket);
        done
    }
}

/// Answers and closes.
pub(crate) fn reply(client: RawFd, bytes: &[u8]) -> io::Result<()> {
    let done = write_all(client, bytes);
    close(client);
    done
}

/// Ends a connection whose reply has been read, its port free again at once.
pub(crate) fn leave(socket: RawFd) {
    forget(socket);
    close(socket);
}

pub(crate) fn close(descriptor: RawFd) {
    // SAFETY: our own descriptor, which is not used after this.
    unsafe { libc::close(descriptor) };
}

fn set<T>(socket: RawFd, level: libc::c_int, option: libc::c_int, value: &T) {
    // SAFETY: a value of the size that is said; an option that cannot be set does no harm.
    unsafe {
        let size = size_of::<T>() as libc::socklen_t;
        libc::setsockopt(socket, level, option, std::ptr::from_ref(value).cast(), size);
    }
}

fn no_delay(socket: RawFd) {
    set(socket, libc::IPPROTO_TCP, libc::TCP_NODELAY, &1i32);
}

/// Lets closing reset the connection, all of which has been read: so that its port is free again at once, however many there are.
fn forget(socket: RawFd) {
    set(socket, libc::SOL_SOCKET, libc::SO_LINGER, &libc::linger { l_onoff: 1, l_linger: 0 });
}

pub(crate) fn write_all(descriptor: RawFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match system::write(descriptor, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub(crate) fn read_all(descriptor: RawFd, bytes: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match system::read(descriptor, &mut bytes[done..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
