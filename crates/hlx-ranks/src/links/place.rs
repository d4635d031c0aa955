//! Where a rank can be reached: its host's name, and the addresses that it listens at.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};

use crate::transport::host_name;
use crate::{RankError, Result};

/// The variable that names the one address of this rank that others use.
const ADDRESS: &str = "HLX_ADDRESS";
/// The most addresses of a rank, and bytes of a host's name.
const ADDRESSES: usize = 16;
const HOST: usize = 255;

/// Where a rank is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub host: String,
    pub addresses: Vec<SocketAddr>,
}

impl Place {
    /// Listens at a free port, at all addresses of this host or at that of `HLX_ADDRESS`.
    ///
    /// # Errors
    /// [`RankError::Start`] with the system's message.
    pub fn listen() -> Result<(TcpListener, Self)> {
        let named = std::env::var(ADDRESS).ok().filter(|name| !name.is_empty());
        let (any, here) = match named {
            Some(name) => {
                let wrong = |error| RankError::start(format!("{ADDRESS} {name}"), error);
                let address: IpAddr = name.parse().map_err(|error| wrong(format!("{error}")))?;
                (vec![address], vec![address])
            }
            None => (
                vec![Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()],
                own_addresses(),
            ),
        };
        let any: Vec<SocketAddr> = any.into_iter().map(|one| (one, 0).into()).collect();
        let failed = |error| RankError::start("a port for life signs", error);
        let listener = TcpListener::bind(&any[..]).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let mut host = host_name().split_whitespace().collect::<String>();
        host.truncate(HOST);
        let addresses = here.into_iter().map(|one| (one, port).into()).collect();
        Ok((listener, Self { host, addresses }))
    }

    /// The place as a line without its end.
    pub fn to_line(&self) -> String {
        let addresses = self.addresses.iter().map(|address| format!(" {address}"));
        format!("{}{}", self.host, addresses.collect::<String>())
    }

    /// The place of a line; `None` for what is none.
    pub fn from_line(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let host = words.next().filter(|host| {
            let is_plain = host
                .chars()
                .all(|one| !one.is_whitespace() && !one.is_control());
            !host.is_empty() && host.len() <= HOST && is_plain
        })?;
        let addresses = words.map(|word| word.parse().ok());
        let addresses = addresses.collect::<Option<Vec<SocketAddr>>>()?;
        (1..=ADDRESSES).contains(&addresses.len()).then(|| Self {
            host: host.to_owned(),
            addresses,
        })
    }

    /// The addresses in the order in which another rank tries them: on the same host the loopback first,
    /// then those that share the most leading bits with an address of its own.
    pub fn towards(&self, from: &Self) -> Vec<SocketAddr> {
        let mut addresses = self.addresses.clone();
        let nearest = |address: &SocketAddr| {
            let own = from.addresses.iter();
            own.map(|own| common_bits(own.ip(), address.ip())).max()
        };
        addresses.sort_by_key(|address| std::cmp::Reverse(nearest(address)));
        if self.host == from.host {
            let port = addresses.first().map_or(0, SocketAddr::port);
            addresses.insert(0, (Ipv4Addr::LOCALHOST, port).into());
        }
        addresses
    }
}

/// The leading bits that two addresses have in common; 0 for addresses of two kinds.
fn common_bits(one: IpAddr, other: IpAddr) -> u32 {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            96 + (one.to_bits() ^ other.to_bits()).leading_zeros()
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        _ => 0,
    }
}

/// The addresses of this host but the loopback's: the system's table, else what its name resolves to,
/// else the loopback.
fn own_addresses() -> Vec<IpAddr> {
    let table = std::fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    let mut found: Vec<IpAddr> = in_table(&table).into_iter().map(IpAddr::V4).collect();
    let table = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    found.extend(in_table_6(&table).into_iter().map(IpAddr::V6));
    if found.is_empty() {
        let named = (host_name(), 0).to_socket_addrs().into_iter().flatten();
        found.extend(named.map(|address| address.ip()));
        found.retain(|address| !address.is_loopback());
    }
    found.truncate(ADDRESSES);
    if found.is_empty() {
        found.push(Ipv4Addr::LOCALHOST.into());
    }
    found
}

/// The local addresses of Linux' `fib_trie`: the line after an address says whether it is one.
fn in_table(table: &str) -> Vec<Ipv4Addr> {
    let mut found = Vec::new();
    let mut before = None;
    for line in table.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            before = address.parse::<Ipv4Addr>().ok();
        } else if line == "/32 host LOCAL" {
            found.extend(before.filter(|address| !address.is_loopback()));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The addresses of global scope of Linux' `if_inet6`.
fn in_table_6(table: &str) -> Vec<Ipv6Addr> {
    let address = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_global = words.get(3) == Some(&"00");
        let bits = u128::from_str_radix(words.first()?, 16).ok()?;
        is_global.then(|| Ipv6Addr::from_bits(bits))
    };
    table.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_goes_through_its_line_and_nothing_else_does() {
        let line = "node-7 10.0.0.7:4000 [fd00::7]:4000";
        let place = Place::from_line(line).expect("a place");
        assert_eq!((place.to_line().as_str(), place.addresses.len()), (line, 2));
        let many = format!("host{}", " 1.2.3.4:5".repeat(ADDRESSES + 1));
        let long = format!("{} 1.2.3.4:5", "h".repeat(HOST + 1));
        for wrong in [
            "",
            "host",
            " 1.2.3.4:5",
            "host 1.2.3.4",
            "ho\tst 1.2.3.4:5",
            &many,
            &long,
        ] {
            assert_eq!(Place::from_line(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn the_nearest_address_is_tried_first() {
        let place = |line: &str| Place::from_line(line).expect("a place");
        let to = place("b 172.17.0.1:9 10.0.1.2:9 [fd00::2]:9");
        let order = to.towards(&place("a 10.0.1.1:8 192.168.0.1:8"));
        assert_eq!(order[0], to.addresses[1]);
        let order = to.towards(&place("b 10.0.1.2:8"));
        assert_eq!(order[0].to_string(), "127.0.0.1:9");
    }

    #[test]
    fn addresses_are_read_from_the_tables_of_linux() {
        let table = "     |-- 127.0.0.1\n   /32 host LOCAL\n  |-- 10.1.0.0\n /24 link UNICAST\n \
                     |-- 10.1.0.2\n  /32 host LOCAL\n |-- 10.1.0.255\n /32 link BROADCAST\n";
        assert_eq!(in_table(table), [Ipv4Addr::new(10, 1, 0, 2)]);
        let table = "fd000000000000000000000000000002 04 40 00 82 eth0\n\
                     fe800000000000000000000000000001 04 40 20 80 eth0\nshort\n";
        let expected: Ipv6Addr = "fd00::2".parse().expect("an address");
        assert_eq!(in_table_6(table), [expected]);
    }
}
