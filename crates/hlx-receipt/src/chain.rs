//! Chains: how a server continues one, and what is wrong with receipts that should follow each other.

use std::collections::BTreeMap;
use std::fmt;

use crate::digest::{Hex, Sha256};
use crate::number::Whole;
use crate::receipt::{Link, Receipt};
use crate::{Body, Information, ReceiptError, Result, SigningKey};

/// The chain of one run of a server.
#[derive(Debug)]
pub struct Chain {
    key: SigningKey,
    number: Hex<16>,
    sequence: u64,
    previous: Option<Sha256>,
}

impl Chain {
    /// Begins a chain of receipts that a key signs.
    ///
    /// # Errors
    /// [`ReceiptError::Random`].
    pub fn new(key: SigningKey) -> Result<Self> {
        let mut number = [0; 16];
        getrandom::fill(&mut number).map_err(|error| ReceiptError::Random(error.to_string()))?;
        Ok(Self {
            key,
            number: Hex(number),
            sequence: 0,
            previous: None,
        })
    }

    /// The key that signs.
    pub fn key(&self) -> &SigningKey {
        &self.key
    }

    /// Makes the next receipt and gives it to `store`; if that fails, the chain has not grown.
    ///
    /// # Errors
    /// That of `store`, and a number that is not finite.
    pub fn add<E: From<ReceiptError>>(
        &mut self,
        body: Body,
        information: Information,
        store: impl FnOnce(&Receipt) -> std::result::Result<(), E>,
    ) -> std::result::Result<Receipt, E> {
        let link = Link {
            chain: self.number,
            sequence: Whole(self.sequence),
            previous_receipt_sha256: self.previous,
        };
        let receipt = Receipt::sign(&self.key, body, link, information)?;
        let digest = receipt.sha256()?;
        store(&receipt)?;
        (self.sequence, self.previous) = (self.sequence + 1, Some(digest));
        Ok(receipt)
    }
}

/// What was found in one chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainFinding {
    /// The key that has signed the receipts.
    pub key: String,
    /// The chain's number.
    pub chain: String,
    /// The receipts that were given, a receipt that was given twice once.
    pub n_receipts: usize,
    /// The numbers of the first and the last of them.
    pub range: (u64, u64),
    /// What is not as it should be, in the order of the receipts.
    pub faults: Vec<ChainFault>,
}

/// What is not as it should be in a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainFault {
    /// Receipts that were not given: a chain may well be known in part.
    Gap {
        /// The first of them.
        from: u64,
        /// The last of them.
        to: u64,
    },
    /// Different receipts with one number.
    Fork {
        /// The number.
        sequence: u64,
        /// How many there are.
        n: usize,
    },
    /// A receipt that names another one before it than the one that has this place.
    Broken {
        /// Its number.
        sequence: u64,
    },
}

impl ChainFault {
    /// Whether no honest server makes it.
    pub fn is_error(&self) -> bool {
        !matches!(self, Self::Gap { .. })
    }
}

impl fmt::Display for ChainFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Gap { from, to } if from == to => write!(f, "receipt {from} was not given"),
            Self::Gap { from, to } => write!(f, "receipts {from} to {to} were not given"),
            Self::Fork { sequence, n } => {
                write!(
                    f,
                    "the chain forks: {n} different receipts have the number {sequence}"
                )
            }
            Self::Broken { sequence } => write!(
                f,
                "receipt {sequence} does not follow receipt {}: it names another receipt before it",
                sequence - 1
            ),
        }
    }
}

/// Checks how receipts follow each other, in whatever order they are given; their signatures are not looked at.
///
/// # Errors
/// A number that is not finite.
pub fn check_chains(receipts: &[Receipt]) -> Result<Vec<ChainFinding>> {
    type Places = BTreeMap<u64, BTreeMap<Sha256, Option<Sha256>>>;
    let mut chains: BTreeMap<(String, Hex<16>), Places> = BTreeMap::new();
    for receipt in receipts {
        let link = &receipt.link;
        let key = (receipt.signature.public_key.to_string(), link.chain);
        let places = chains.entry(key).or_default();
        let place = places.entry(link.sequence.0).or_default();
        place.insert(receipt.sha256()?, link.previous_receipt_sha256);
    }
    let findings = chains.into_iter().map(|((key, chain), places)| {
        let numbers = (places.keys().next(), places.keys().next_back());
        ChainFinding {
            key,
            chain: chain.to_string(),
            n_receipts: places.values().map(BTreeMap::len).sum(),
            range: (*numbers.0.unwrap_or(&0), *numbers.1.unwrap_or(&0)),
            faults: faults_of(&places),
        }
    });
    Ok(findings.collect())
}

fn faults_of(places: &BTreeMap<u64, BTreeMap<Sha256, Option<Sha256>>>) -> Vec<ChainFault> {
    let mut faults = Vec::new();
    let mut before: Option<(u64, &BTreeMap<Sha256, Option<Sha256>>)> = None;
    for (&sequence, place) in places {
        match before {
            None if sequence > 0 => faults.push(ChainFault::Gap {
                from: 0,
                to: sequence - 1,
            }),
            Some((last, _)) if last + 1 < sequence => faults.push(ChainFault::Gap {
                from: last + 1,
                to: sequence - 1,
            }),
            Some((_, known)) => {
                let follows =
                    |named: &Option<Sha256>| named.is_some_and(|one| known.contains_key(&one));
                if !place.values().all(follows) {
                    faults.push(ChainFault::Broken { sequence });
                }
            }
            None => {}
        }
        if place.len() > 1 {
            let n = place.len();
            faults.push(ChainFault::Fork { sequence, n });
        }
        before = Some((sequence, place));
    }
    faults
}
