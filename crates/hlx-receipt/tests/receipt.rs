//! Receipts: their form, their signatures, and what is refused.

mod common;

use common::{body, chain, information, key};
use hlx_receipt::{Chain, ChainFault, Receipt, ReceiptError, SigningKey, check_chains};
use serde_json::{Value, json};

/// What is changed of a receipt.
type Change<'a> = &'a dyn Fn(&mut Value);

/// Whether bytes pass as a receipt of the test's key.
fn passes(bytes: &[u8]) -> bool {
    let checked = Receipt::parse(bytes).and_then(|receipt| {
        receipt.check_key(&key().public())?;
        receipt.check_signature()
    });
    checked.is_ok()
}

#[test]
fn a_receipt_comes_back_and_no_changed_byte_passes() {
    let receipt = chain(2).pop().expect("a receipt");
    let bytes = receipt.to_bytes().expect("is written");
    assert_eq!(Receipt::parse(&bytes).expect("is read"), receipt);
    assert!(passes(&bytes));
    // Every byte, each by a few others: digits, letters, the ends of strings, white space.
    for at in 0..bytes.len() {
        for change in [
            1,
            2,
            4,
            0x10,
            0x20,
            0x80,
            bytes[at] ^ b' ',
            bytes[at] ^ b'"',
            bytes[at] ^ b'0',
        ] {
            let mut changed = bytes.clone();
            changed[at] ^= change;
            let is_same = changed == bytes;
            assert_eq!(
                passes(&changed),
                is_same,
                "byte {at} as {:?}",
                changed[at] as char
            );
        }
        assert!(!passes(&bytes[..at]), "cut at {at}");
    }
    // The same JSON in another layout is the same receipt.
    let value: Value = serde_json::from_slice(&bytes).expect("JSON");
    let pretty = serde_json::to_vec_pretty(&value).expect("is written");
    assert!(passes(&pretty));
    assert_eq!(Receipt::of_value(&value), Ok(receipt));
}

#[test]
fn what_is_no_receipt_is_named_in_one_line() {
    let receipt = chain(1).pop().expect("a receipt");
    let whole = serde_json::to_value(&receipt).expect("is written");
    let refused = |change: Change<'_>| {
        let mut value = whole.clone();
        change(&mut value);
        Receipt::of_value(&value)
            .expect_err("is refused")
            .to_string()
    };
    let cases: [(Change<'_>, &str); 11] = [
        (
            &|v| v["type"] = json!("hlx.audit"),
            "no receipt: its type is \"hlx.audit\", expected \"hlx.receipt\"",
        ),
        (
            &|v| v["version"] = json!(2),
            "the receipt has version 2, and this HLX knows version 1",
        ),
        (
            &|v| v["version"] = json!("1"),
            "the receipt has version \"1\", and this HLX knows version 1",
        ),
        (&|v| v["body"]["extra"] = json!(1), "unknown field `extra`"),
        (
            &|v| v["body"]["sampling"]["seed"] = json!("7"),
            "no whole number above 2^53",
        ),
        (
            &|v| v["body"]["model"]["weights_sha256"] = json!("AB"),
            "expected 64 lower-case hexadecimal digits",
        ),
        (
            &|v| v["body"]["token_ids"] = json!([1]),
            "token_ids has 1 tokens, and step_logits_sha256 3 digests",
        ),
        (
            &|v| v["body"]["prompt_token_ids"] = json!([]),
            "prompt_token_ids is empty",
        ),
        (
            &|v| v["link"]["sequence"] = json!(1),
            "the first receipt of a chain alone has no receipt before",
        ),
        (
            &|v| v["signature"]["algorithm"] = json!("RS256"),
            "signature.algorithm is \"RS256\", expected \"Ed25519\"",
        ),
        (
            &|v| v["signature"]["public_key"] = json!("02".to_owned() + &"0".repeat(62)),
            "is no Ed25519 key",
        ),
    ];
    for (change, expected) in cases {
        let found = refused(change);
        assert!(found.contains(expected) && !found.contains('\n'), "{found}");
    }
    for bytes in [
        &b""[..],
        b"{",
        b"[]",
        b"{\"type\":\"hlx.receipt\"}",
        b"\xff",
    ] {
        let found = Receipt::parse(bytes).expect_err("is refused");
        assert!(matches!(found, ReceiptError::Form(_)), "{found}");
    }
    let twice = String::from_utf8(receipt.to_bytes().expect("is written")).expect("UTF-8");
    let twice = twice.replacen("\"version\":1", "\"version\":1,\"version\":1", 1);
    assert!(Receipt::parse(twice.as_bytes()).is_err(), "a member twice");
}

#[test]
fn another_key_is_named() {
    let other = SigningKey::of_seed(&[8; 32]);
    let mut receipt = chain(1).pop().expect("a receipt");
    let found = receipt.check_key(&other.public()).expect_err("another key");
    assert!(
        found
            .to_string()
            .starts_with("the receipt is signed by the key "),
        "{found}"
    );
    // Under the name of another key the signature is wrong.
    receipt.signature.public_key = other.public();
    let found = receipt.check_signature().expect_err("is not signed");
    assert_eq!(found, ReceiptError::Signature(other.public().to_string()));
}

#[test]
fn a_body_is_the_same_whoever_signs() {
    let other = SigningKey::of_seed(&[8; 32]);
    let sign = |key: &SigningKey, n: u64| {
        let mut chain = Chain::new(key.clone()).expect("begins");
        let mut information = information();
        information.created.0 += n;
        let add = |chain: &mut Chain| {
            chain.add::<ReceiptError>(body("x"), information.clone(), |_| Ok(()))
        };
        add(&mut chain).expect("is added");
        add(&mut chain).expect("is added")
    };
    let (one, two) = (sign(&key(), 1), sign(&other, 2));
    assert_eq!(one.body.sha256(), two.body.sha256());
    assert_ne!(one.sha256(), two.sha256());
}

#[test]
fn chains_name_gaps_forks_and_what_does_not_follow() {
    let all = chain(6);
    let faults = |receipts: &[Receipt]| {
        let found = check_chains(receipts).expect("are checked");
        assert_eq!(found.len(), 1);
        found[0].faults.clone()
    };
    let mut order = all.clone();
    order.reverse();
    order.push(all[2].clone());
    assert_eq!(faults(&order), []);
    let found = check_chains(&order).expect("are checked");
    assert_eq!((found[0].n_receipts, found[0].range), (6, (0, 5)));
    let some = [all[1].clone(), all[4].clone(), all[5].clone()];
    let gaps = faults(&some);
    assert_eq!(
        gaps,
        [
            ChainFault::Gap { from: 0, to: 0 },
            ChainFault::Gap { from: 2, to: 3 }
        ]
    );
    assert!(gaps.iter().all(|gap| !gap.is_error()));
    assert_eq!(gaps[1].to_string(), "receipts 2 to 3 were not given");
    // A second receipt in a place, which the key has signed, too.
    let mut link = all[3].link.clone();
    let fork =
        Receipt::sign(&key(), body("other"), link.clone(), information()).expect("is signed");
    let mut forked = all.clone();
    forked.push(fork);
    assert_eq!(faults(&forked), [ChainFault::Fork { sequence: 3, n: 2 }]);
    link.previous_receipt_sha256 = Some(all[0].sha256().expect("is written"));
    let broken = Receipt::sign(&key(), body("other"), link, information()).expect("is signed");
    let mut broken_chain = all.clone();
    broken_chain[3] = broken;
    let found = faults(&broken_chain);
    assert_eq!(
        found,
        [
            ChainFault::Broken { sequence: 3 },
            ChainFault::Broken { sequence: 4 }
        ]
    );
    assert!(
        found[0]
            .to_string()
            .starts_with("receipt 3 does not follow receipt 2")
    );
    // Chains do not mix.
    let both = [chain(2), chain(3)].concat();
    let found = check_chains(&both).expect("are checked");
    assert!(found.len() == 2 && found.iter().all(|one| one.faults.is_empty()));
}

#[test]
fn a_receipt_that_is_not_stored_is_not_in_the_chain() {
    let mut chain = Chain::new(key()).expect("begins");
    let full = |_: &Receipt| Err(ReceiptError::Form("the disk is full".to_owned()));
    assert!(chain.add(body("a"), information(), full).is_err());
    let next = chain.add::<ReceiptError>(body("a"), information(), |_| Ok(()));
    assert_eq!(next.expect("is added").link.sequence.0, 0);
}
