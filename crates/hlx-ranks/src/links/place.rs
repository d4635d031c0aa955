//! Where a rank can be reached: its host's name, and the addresses that it listens at.

use std::net::{IpAddr, SocketAddr};

use super::cut;

/// The most addresses of a rank beside the loopback's, and bytes of a host's name.
pub(super) const ADDRESSES: usize = 16;
const HOST: usize = 255;

/// Where a rank is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub host: String,
    pub addresses: Vec<SocketAddr>,
}

impl Place {
    /// The place as a line without its end.
    pub fn to_line(&self) -> String {
        let addresses = self.addresses.iter().map(|address| format!(" {address}"));
        format!("{}{}", self.host, addresses.collect::<String>())
    }

    /// The place of a line; `None` for what is none.
    pub fn from_line(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let host = words
            .next()
            .filter(|host| !host.is_empty() && host.len() <= HOST && host.chars().all(is_plain))?;
        let addresses = words.map(|word| word.parse().ok());
        let addresses = addresses.collect::<Option<Vec<SocketAddr>>>()?;
        (1..=ADDRESSES + 2)
            .contains(&addresses.len())
            .then(|| Self {
                host: host.to_owned(),
                addresses,
            })
    }

    /// The addresses in the order in which another rank tries them: on the same host the loopback first,
    /// then those that share the most leading bits with an address of its own. Last are those that are its
    /// own, such as that of the bridge that container engines make on every host: there it finds itself. So would
    /// another host at its loopback.
    pub fn towards(&self, from: &Self) -> Vec<SocketAddr> {
        let is_local = |address: &SocketAddr| address.ip().is_loopback();
        let (loopbacks, mut addresses): (Vec<SocketAddr>, _) =
            self.addresses.iter().partition(|address| is_local(address));
        let nearest = |address: &SocketAddr| {
            let own = from.addresses.iter().map(SocketAddr::ip);
            let bits = own.map(|own| common_bits(own, address.ip())).max();
            bits.filter(|&bits| bits < 128)
        };
        addresses.sort_by_key(|address| std::cmp::Reverse(nearest(address)));
        if self.host == from.host || addresses.is_empty() {
            addresses.splice(0..0, loopbacks);
        }
        addresses
    }
}

/// Whether a host's name may have a character: a line of words stays one.
fn is_plain(one: char) -> bool {
    !one.is_whitespace() && !one.is_control()
}

/// A host's name as a place has it.
pub(super) fn plain(name: &str) -> String {
    let name: String = name.chars().filter(|&one| is_plain(one)).collect();
    match cut(&name, HOST) {
        "" => "unnamed".to_owned(),
        name => name.to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_goes_through_its_line_and_nothing_else_does() {
        let line = "node-7 10.0.0.7:4000 [fd00::7]:4000";
        let place = Place::from_line(line).expect("a place");
        assert_eq!((place.to_line().as_str(), place.addresses.len()), (line, 2));
        let many = format!("host{}", " 1.2.3.4:5".repeat(ADDRESSES + 3));
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
        let to = place("b 172.17.0.1:9 10.0.1.2:9 [fd00::2]:9 127.0.0.1:9 [::1]:9");
        let order = to.towards(&place("b 10.0.1.2:8"));
        let first: Vec<String> = order[..2].iter().map(ToString::to_string).collect();
        assert_eq!(
            (first.join(" "), order.len()),
            ("127.0.0.1:9 [::1]:9".to_owned(), 5)
        );
        let order = to.towards(&place("a 10.0.1.1:8"));
        assert!(order.iter().all(|address| !address.ip().is_loopback()));
    }

    /// Container engines give every host the same address, where a rank would find its own host.
    #[test]
    fn an_address_that_both_hosts_have_is_tried_last() {
        let place = |line: &str| Place::from_line(line).expect("a place");
        let order = place("b 172.17.0.1:9 10.0.1.2:9 [fd00::2]:9")
            .towards(&place("a 172.17.0.1:8 10.0.1.1:8 [fd00::1]:8"));
        let order: Vec<String> = order.iter().map(ToString::to_string).collect();
        assert_eq!(order, ["10.0.1.2:9", "[fd00::2]:9", "172.17.0.1:9"]);
    }

    #[test]
    fn a_hosts_name_is_one_word() {
        assert_eq!(plain("no de\t7\n"), "node7");
        assert_eq!(plain(""), "unnamed");
        assert_eq!(plain(&"€".repeat(HOST)), "€".repeat(HOST / 3));
    }
}
