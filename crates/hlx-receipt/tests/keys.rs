//! Keys: known answers, files, and what is refused.

use std::fs;
use std::path::PathBuf;

use hlx_receipt::{PublicKey, SigningKey, public_path};

/// A folder of a test that is removed with its value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("hlx-keys-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("is made");
        Self(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The first test of RFC 8032, section 7.1.
#[test]
fn signatures_are_those_of_the_rfc() {
    let seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
    let byte = |at: usize| u8::from_str_radix(&seed[2 * at..2 * at + 2], 16).expect("digits");
    let key = SigningKey::of_seed(&std::array::from_fn(byte));
    let public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
    assert_eq!(key.public().to_string(), public);
    let signature = key.sign(b"");
    let expected = "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155\
                    5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b";
    assert_eq!(hex(&signature), expected);
    assert!(key.public().has_signed(b"", &signature) && !key.public().has_signed(b"x", &signature));
}

/// The keys of RFC 8410, section 10.
#[cfg(unix)]
#[test]
fn files_are_read_as_other_programs_write_them() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Scratch::new("rfc");
    let (private, public) = (folder.0.join("key"), folder.0.join("key.pub"));
    let text = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
                -----END PRIVATE KEY-----\n";
    fs::write(&private, text).expect("is written");
    fs::set_permissions(&private, fs::Permissions::from_mode(0o600)).expect("are set");
    let text = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n\
                -----END PUBLIC KEY-----\n";
    fs::write(&public, text).expect("is written");
    let expected = "19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1";
    let read = SigningKey::open(&private).expect("is read");
    assert_eq!(read.public().to_string(), expected);
    assert_eq!(PublicKey::open(&public).expect("is read"), read.public());
    assert_eq!(read.public().to_pem().as_deref(), Ok(text));
    for mode in [0o644, 0o600] {
        fs::set_permissions(&public, fs::Permissions::from_mode(mode)).expect("are set");
        let found = SigningKey::open(&public)
            .expect_err("a public key")
            .to_string();
        assert!(
            found.ends_with("holds a public key, expected a private one"),
            "{found}"
        );
    }
}

#[test]
fn a_new_key_is_its_users_alone_and_replaces_nothing() {
    let folder = Scratch::new("new");
    let path = folder.0.join("key");
    let key = SigningKey::random().expect("is drawn");
    key.create(&path).expect("is written");
    assert_eq!(
        SigningKey::open(&path).expect("is read").public(),
        key.public()
    );
    assert_eq!(
        PublicKey::open(&public_path(&path)).expect("is read"),
        key.public()
    );
    assert_eq!(PublicKey::open(&path).expect("is read"), key.public());
    assert!(!format!("{key:?}").contains(&hex(&[0; 2])) || format!("{key:?}").len() < 90);
    let other = SigningKey::random().expect("is drawn");
    let found = other.create(&path).expect_err("is there").to_string();
    assert!(
        found.ends_with("is there already") && !found.contains('\n'),
        "{found}"
    );
    fs::remove_file(&path).expect("is removed");
    assert!(other.create(&path).is_err(), "the public key is there");
    assert!(!path.exists());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::remove_file(public_path(&path)).expect("is removed");
        other.create(&path).expect("is written");
        let mode = fs::metadata(&path).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for open in [0o640, 0o604, 0o620] {
            fs::set_permissions(&path, fs::Permissions::from_mode(open)).expect("are set");
            let found = SigningKey::open(&path)
                .expect_err("others can read it")
                .to_string();
            assert!(
                found.contains("other users can read this private key"),
                "{found}"
            );
            assert!(PublicKey::open(&path).is_err());
        }
    }
}

#[test]
fn what_is_no_key_is_refused() {
    let folder = Scratch::new("bad");
    let path = folder.0.join("key");
    let found = SigningKey::open(&path)
        .expect_err("is not there")
        .to_string();
    assert!(found.contains("key"), "{found}");
    for bytes in [
        &b""[..],
        b"-----BEGIN PRIVATE KEY-----\n",
        b"\xff\xfe",
        &[b'a'; 20_000],
    ] {
        fs::write(&path, bytes).expect("is written");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("are set");
        }
        for found in [SigningKey::open(&path).err(), PublicKey::open(&path).err()] {
            let found = found.expect("is refused").to_string();
            assert!(found.contains("key") && !found.contains('\n'), "{found}");
        }
    }
}
