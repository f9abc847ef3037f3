//! The user at the other end of a connection of the loopback interface.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{SocketAddr, SocketAddrV4, TcpStream};

/// The tables of connections of this network namespace. A program may use a socket for IPv6 to reach an address of IPv4.
const TABLES: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
/// The state of a connection that is open at the end that the line describes.
const ESTABLISHED: &str = "01";
/// A table is read up to this length: a million connections.
const TABLE_MAX: u64 = 200 << 20;

/// The user of the program at the other end. `None` if it has closed its end, or is on another machine.
pub(super) fn peer_user(stream: &TcpStream) -> io::Result<Option<u32>> {
    let (SocketAddr::V4(own), SocketAddr::V4(peer)) = (stream.local_addr()?, stream.peer_addr()?)
    else {
        return Ok(None);
    };
    for table in TABLES {
        let lines = match File::open(table) {
            Ok(file) => BufReader::new(file.take(TABLE_MAX)).lines(),
            // There may be no IPv6.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for line in lines {
            if let Some(user) = user_in(&line?, peer, own) {
                return Ok(Some(user));
            }
        }
    }
    Ok(None)
}

/// The user in a line of a table, if the line is about the open connection between these addresses.
fn user_in(line: &str, local: SocketAddrV4, remote: SocketAddrV4) -> Option<u32> {
    let mut words = line.split_ascii_whitespace();
    let _number = words.next()?;
    let is_it = is_address(words.next()?, local) && is_address(words.next()?, remote);
    // The socket of a program that has closed its end belongs to nobody, which the table shows as root.
    if !is_it || words.next()? != ESTABLISHED {
        return None;
    }
    let user = words.nth(3)?;
    let inode = words.nth(1)?;
    user.parse().ok().filter(|_| inode != "0")
}

/// Returns whether a word such as `0100007F:1F90` is an address, perhaps as one of IPv6.
fn is_address(word: &str, address: SocketAddrV4) -> bool {
    // The kernel prints the bytes of an address as a number.
    let word_of = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
    let short = word_of(address.ip().octets());
    let long = format!("{:016}{}{short}", 0, word_of([0, 0, 0xff, 0xff]));
    let Some((ip, port)) = word.split_once(':') else {
        return false;
    };
    port == format!("{:04X}", address.port()) && (ip == short || ip == long)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const LINE: &str = "  12: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 39104 1 0000000000000000 20 4 30 10 -1";

    fn at(text: &str) -> SocketAddrV4 {
        text.parse().unwrap()
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn the_line_of_the_other_end_has_the_user() {
        let (client, site) = (at("127.0.0.1:50000"), at("127.0.0.1:8080"));
        let user = |line: &str| user_in(line, client, site);
        assert_eq!(user(LINE), Some(1000));
        let six = |ip: &str| LINE.replace("0100007F:", ip);
        assert_eq!(user(&six("0000000000000000FFFF00000100007F:")), Some(1000));
        assert_eq!(user(&six("0000000000000000000000000100007F:")), None);
        // The own end, another state, a closed end, and what is no line.
        assert_eq!(user_in(LINE, site, client), None);
        assert_eq!(user(&LINE.replace(" 01 ", " 04 ")), None);
        assert_eq!(user(&LINE.replace("39104", "0")), None);
        for wrong in ["", "sl local_address rem_address", &LINE[..60]] {
            assert_eq!(user(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_kernel_knows_the_user() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).unwrap();
        let (served, _) = listener.accept().unwrap();
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(peer_user(&served).unwrap(), Some(own));
        drop(client);
        assert_eq!(peer_user(&served).unwrap(), None);
    }
}
