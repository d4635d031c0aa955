//! The vectors of RFC 8785.

use hlx_receipt::canonical;
use serde_json::Value;

fn text(value: &Value) -> String {
    String::from_utf8(canonical(value).expect("is written")).expect("UTF-8")
}

/// Section 3.2.2.
#[test]
fn values_are_written_as_in_the_rfc() {
    let given = r#"{
        "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
        "literals": [null, true, false]
    }"#;
    let given: Value = serde_json::from_str(given).expect("JSON");
    let expected = "7b226c69746572616c73223a5b6e756c6c2c747275652c66616c73655d2c226e756d62657273223a5b33333333333333\
                    33332e333333333333332c31652b33302c342e352c302e3030322c31652d32375d2c22737472696e67223a22e282ac\
                    245c75303030665c6e4127425c225c5c5c5c5c222f227d";
    let found = text(&given);
    let hex: String = found.bytes().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, expected, "{found}");
}

/// Section 3.2.3.
#[test]
fn members_are_sorted_by_utf_16_code_units() {
    let given = r#"{
        "\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh", "1": "One",
        "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis"
    }"#;
    let given: Value = serde_json::from_str(given).expect("JSON");
    let found = text(&given);
    let order = [
        "Carriage Return",
        "One",
        "Control",
        "Latin Small Letter O With Diaeresis",
        "Euro Sign",
        "Emoji: Grinning Face",
        "Hebrew Letter Dalet With Dagesh",
    ];
    let places: Vec<Option<usize>> = order.iter().map(|value| found.find(value)).collect();
    assert!(
        places.is_sorted() && places.iter().all(Option::is_some),
        "{found}"
    );
    assert!(found.starts_with("{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":"));
}

/// Appendix B.
#[test]
fn numbers_are_written_as_ecmascript_writes_them() {
    let cases: [(u64, &str); 25] = [
        (0x0000_0000_0000_0000, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
        (0x4340_0000_0000_0000, "9007199254740992"),
        (0xc340_0000_0000_0000, "-9007199254740992"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        (0x3ff8_0000_0000_0000, "1.5"),
    ];
    for (bits, expected) in cases {
        let found = canonical(&f64::from_bits(bits)).expect("is written");
        assert_eq!(String::from_utf8_lossy(&found), expected, "{bits:016x}");
    }
    for bits in [
        0x7fff_ffff_ffff_ffff,
        0x7ff0_0000_0000_0000,
        0xfff0_0000_0000_0000,
    ] {
        let found = canonical(&f64::from_bits(bits));
        assert!(found.is_err(), "{bits:016x}");
    }
}
