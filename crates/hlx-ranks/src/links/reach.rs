//! Where this rank listens, and the addresses of its host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};

use super::listener::Listener;
use super::place::{ADDRESSES, Place, plain};
use crate::secret::Trust;
use crate::transport::host_name;
use crate::{RankError, Result};

/// The variable that names the one address of this rank that others use.
const ADDRESS: &str = "HLX_ADDRESS";

/// From where a rank can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// From this host alone.
    Loopback,
    /// At the address that this host has towards one of these.
    Towards(Vec<SocketAddr>),
    /// At all addresses of this host, where nobody has said which one others use.
    Everywhere,
}

impl Place {
    /// Listens at a free port: at the address of `HLX_ADDRESS`, else as `reach` says.
    ///
    /// # Errors
    /// [`RankError::Start`] with the system's message, and for an address of `HLX_ADDRESS` that others reach where
    /// only the loopback may be used.
    pub fn listen(reach: &Reach) -> Result<(Listener, Self)> {
        let named = std::env::var(ADDRESS).ok().filter(|name| !name.is_empty());
        Self::listen_at(named.as_deref(), reach)
    }

    fn listen_at(named: Option<&str>, reach: &Reach) -> Result<(Listener, Self)> {
        let at = |own: IpAddr| Listener::at(&[(own, 0).into()]).map(|one| (one, vec![own]));
        let listening = match (named, reach) {
            (Some(name), _) => {
                let wrong = |error| RankError::start(format!("{ADDRESS} {name:?}"), error);
                let address: IpAddr = name.parse().map_err(|error| wrong(format!("{error}")))?;
                if *reach == Reach::Loopback && !address.is_loopback() {
                    return Err(wrong(Trust::advice()));
                }
                at(address)
            }
            (None, Reach::Towards(others)) => {
                at(towards(others).unwrap_or(Ipv4Addr::LOCALHOST.into()))
            }
            (None, Reach::Loopback) => {
                let [four, six] = loopbacks();
                at(four).or_else(|_| at(six))
            }
            (None, Reach::Everywhere) => {
                let own = own_addresses().into_iter().chain(loopbacks()).collect();
                Listener::everywhere(0).map(|one| (one, own))
            }
        };
        let failed = |error| RankError::start("a port for life signs", error);
        let (listener, here) = listening.map_err(failed)?;
        let port = listener.port().map_err(failed)?;
        let host = plain(&host_name());
        let addresses = here.into_iter().map(|one| (one, port).into()).collect();
        Ok((listener, Self { host, addresses }))
    }
}

/// The addresses of this host except the loopback's: those of its default routes, those of the system's tables,
/// where there are none those that its name resolves to.
fn own_addresses() -> Vec<IpAddr> {
    let table = std::fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    let mut tables: Vec<IpAddr> = in_table(&table).into_iter().map(IpAddr::V4).collect();
    let table = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    tables.extend(in_table_6(&table).into_iter().map(IpAddr::V6));
    if tables.is_empty() {
        let named = (host_name(), 0).to_socket_addrs().into_iter().flatten();
        tables.extend(named.map(|address| address.ip()));
    }
    chosen(routed().into_iter().chain(tables))
}

fn loopbacks() -> [IpAddr; 2] {
    [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
}

/// The address that this host sends from to the first of these that it has a route to.
fn towards(others: &[SocketAddr]) -> Option<IpAddr> {
    let own = |other: &SocketAddr| {
        let any: IpAddr = match other {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        source(any, *other)
    };
    others.iter().find_map(own)
}

/// The address that this host sends from to another. Sends nothing: the system chooses a route.
fn source(any: IpAddr, far: SocketAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(far).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// The first addresses that other hosts may reach, each once.
fn chosen(addresses: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    let mut chosen = Vec::new();
    for address in addresses {
        let is_local = match address {
            IpAddr::V4(address) => address.is_loopback(),
            // Such an address needs the name of an interface, which is another on each host.
            IpAddr::V6(address) => address.is_loopback() || address.is_unicast_link_local(),
        };
        if !is_local && !chosen.contains(&address) && chosen.len() < ADDRESSES {
            chosen.push(address);
        }
    }
    chosen
}

/// The addresses that this host sends from by its default routes. A host of many containers has more bridges
/// than a place has addresses: these are the ones that must be among them.
fn routed() -> Vec<IpAddr> {
    let own = |any: IpAddr, far: IpAddr| source(any, (far, 9).into());
    // Addresses for documentation, which no host has: RFC 5737 and RFC 3849.
    let far = (
        Ipv4Addr::new(192, 0, 2, 1),
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
    );
    let all = [
        own(Ipv4Addr::UNSPECIFIED.into(), far.0.into()),
        own(Ipv6Addr::UNSPECIFIED.into(), far.1.into()),
    ];
    all.into_iter().flatten().collect()
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

    /// The address of the network stood after those of the containers, and was left out.
    #[test]
    fn the_first_addresses_are_chosen_once_each() {
        let routed = ["192.168.0.9", "fd00::9", "fe80::1"].map(|one| one.parse().expect("one"));
        let bridges = (0..20).map(|n| IpAddr::from([172, 17, n, 1]));
        let all = routed.into_iter().chain(bridges).chain(routed);
        let found = chosen(all);
        assert_eq!(found.len(), ADDRESSES);
        assert_eq!(found[..2], routed[..2]);
        assert_eq!(found[2], IpAddr::from([172, 17, 0, 1]));
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
