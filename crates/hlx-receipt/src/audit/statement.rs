//! The statement of an audit: an in-toto Statement v1 whose predicate is ours, in a DSSE envelope.

use serde::{Deserialize, Serialize};

use super::chance::{Chance, table};
use super::choice::choose;
use super::layout::Layout;
use crate::canonical::canonical;
use crate::digest::Sha256;
use crate::envelope::Envelope;
use crate::key::{PublicKey, SigningKey};
use crate::number::Whole;
use crate::place::Place;
use crate::{ReceiptError, Result};

/// What statements say in `predicateType`.
pub const PREDICATE_TYPE: &str = "urn:hlx:attestation:audit:v1";
/// What statements say in `_type`.
const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
/// What envelopes say in `payloadType`.
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// The bytes of a certificate at most.
pub const MOST_CERTIFICATE_BYTES: usize = 10_000;
/// What `passes` of [`Chance`] is, for those who read a certificate.
const FORMULA: &str = "C(n_stretches - wrong_stretches, n_checked) / C(n_stretches, n_checked)";
/// What [`Audit::result`] says; of a run that differs there is no certificate.
pub const PASSED: &str = "equal";
/// What a certificate is worth nothing without.
const ASSUMPTIONS: [&str; 4] = [
    "The run's maker could not know the seed before the chain had its last record.",
    "Whoever audits chose one seed, and did not try others until one passed.",
    "The auditor's program and device compute HLX's arithmetic of the stated specification.",
    "SHA-256 has no known collisions or second preimages.",
];

/// An in-toto Statement v1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    subject: Vec<AuditedSubject>,
    #[serde(rename = "predicateType")]
    predicate_type: String,
    predicate: Audit,
}

/// What a statement is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditedSubject {
    /// Its name in the run folder, or `data`.
    pub name: String,
    /// Its digests.
    digest: SubjectDigest,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SubjectDigest {
    sha256: Sha256,
}

impl AuditedSubject {
    /// A subject by its SHA-256.
    pub fn new(name: &str, sha256: Sha256) -> Self {
        let name = name.to_owned();
        let digest = SubjectDigest { sha256 };
        Self { name, digest }
    }

    /// Its SHA-256.
    pub fn sha256(&self) -> Sha256 {
        self.digest.sha256
    }
}

/// What was audited, how, and what it means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Audit {
    /// [`PASSED`].
    pub result: String,
    /// The run.
    pub run: AuditedRun,
    /// How the stretches were chosen.
    pub method: AuditMethod,
    /// What was computed again.
    pub work: AuditWork,
    /// The formula of [`Chance::passes`].
    formula: String,
    /// How likely a forged run would have passed.
    pub chances: Vec<Chance>,
    /// What this rests on.
    assumptions: Vec<String>,
    /// Who says so.
    pub auditor: Auditor,
}

/// A run by its digests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditedRun {
    /// The number of the specification of HLX's arithmetic.
    pub specification: u32,
    /// The arithmetic of products: `portable`, `integer`, `fast` or `fast_f16`.
    pub arithmetic: String,
    /// Where it was computed, of an arithmetic whose bits depend on that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The identity of the configuration.
    pub config_sha256: Sha256,
    /// SHA-256 of the data.
    pub data_sha256: Sha256,
    /// Steps done in the last record of the chain.
    pub steps: Whole,
    /// Records of the chain up to it.
    pub n_records: Whole,
    /// The digest of the last record, which covers all of them.
    pub last_record_sha256: Sha256,
    /// The tree digest of the parameters after the last step.
    pub parameters_sha256: Sha256,
}

/// How stretches were chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditMethod {
    /// Keys the choice.
    pub seed: String,
    /// All stretches.
    pub layout: Layout,
    /// How many there are.
    pub n_stretches: Whole,
    /// How many were chosen.
    pub n_checked: Whole,
    /// The steps that were computed again: from the state after the first to that after the second; neighbours are one.
    pub checked: Vec<[u64; 2]>,
}

/// What was computed again, or compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditWork {
    /// Steps.
    pub steps: Whole,
    /// Records whose losses, norms and digests were compared.
    pub records: Whole,
    /// Checkpoints whose tensors were compared with recomputed ones, element by element.
    pub checkpoints: Whole,
    /// Checkpoints whose tensors were compared with their records by digest: all that the folder has.
    pub stored_states: Whole,
    /// Whether the initial parameters were made again: unless the chain begins later.
    pub initial_state: bool,
}

/// Who has audited: nothing of it can be checked but the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auditor {
    /// Seconds since 1970.
    pub created: Whole,
    /// The device, with its driver.
    pub device: String,
    /// The program and its version.
    pub program: String,
}

impl AuditMethod {
    /// Chooses `k` stretches of a layout.
    ///
    /// # Errors
    /// As [`choose`].
    pub fn new(seed: &str, head: &Sha256, layout: Layout, k: u64) -> Result<Self> {
        let n = layout.n_stretches();
        let chosen = choose(seed, head, n, k)?;
        let mut checked: Vec<[u64; 2]> = Vec::new();
        for [from, to] in chosen.iter().filter_map(|&at| layout.stretch(at)) {
            match checked.last_mut() {
                Some(last) if last[1] == from => last[1] = to,
                _ => checked.push([from, to]),
            }
        }
        Ok(Self {
            seed: seed.to_owned(),
            layout,
            n_stretches: Whole(n),
            n_checked: Whole(k),
            checked,
        })
    }
}

impl Audit {
    /// The statement of an audit that has found no difference.
    pub fn passed(run: AuditedRun, method: AuditMethod, work: AuditWork, auditor: Auditor) -> Self {
        Self {
            result: PASSED.to_owned(),
            chances: table(&method.layout, method.n_checked.0),
            run,
            method,
            work,
            formula: FORMULA.to_owned(),
            assumptions: ASSUMPTIONS.map(str::to_owned).to_vec(),
            auditor,
        }
    }

    /// What the statement rests on, a sentence each.
    pub fn assumptions(&self) -> &[String] {
        &self.assumptions
    }

    /// Checks that what follows from other members does: the choice, its steps and the chances.
    fn check(&self) -> Result<(), String> {
        let Self {
            run, method, work, ..
        } = self;
        method.layout.check()?;
        let head = &run.last_record_sha256;
        let expected = AuditMethod::new(
            &method.seed,
            head,
            method.layout.clone(),
            method.n_checked.0,
        );
        let expected = expected.map_err(|error| error.to_string())?;
        if *method != expected {
            return Err("the stretches are not those that the seed chooses".to_owned());
        }
        let lengths = method.checked.iter().map(|[from, to]| to - from);
        let [_, end] = method.layout.ends();
        if lengths.sum::<u64>() != work.steps.0 || end != run.steps.0 {
            return Err("its steps are not those of its stretches".to_owned());
        }
        let auditor = self.auditor.clone();
        let whole = Self::passed(run.clone(), expected, *work, auditor);
        match *self == whole {
            true => Ok(()),
            false => {
                Err("its result, chances or assumptions do not follow from its method".to_owned())
            }
        }
    }
}

/// A signed statement of an audit, as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Certificate {
    /// What was audited.
    pub audit: Audit,
    /// The chain's file and the data.
    pub subjects: Vec<AuditedSubject>,
    /// Who has signed it.
    pub key: PublicKey,
    /// SHA-256 of the certificate's bytes, by which receipts name it.
    pub sha256: Sha256,
}

impl Certificate {
    /// Signs an audit; returns the bytes of the certificate.
    ///
    /// # Errors
    /// [`ReceiptError::Audit`] for more than [`MOST_CERTIFICATE_BYTES`].
    pub fn sign(key: &SigningKey, audit: Audit, subject: Vec<AuditedSubject>) -> Result<Vec<u8>> {
        let payload = canonical(&Statement {
            kind: STATEMENT_TYPE.to_owned(),
            subject,
            predicate_type: PREDICATE_TYPE.to_owned(),
            predicate: audit,
        })?;
        let bytes = Envelope::sign(key, PAYLOAD_TYPE, &payload).to_bytes()?;
        match bytes.len() {
            ..=MOST_CERTIFICATE_BYTES => Ok(bytes),
            n => Err(ReceiptError::Audit(format!(
                "the certificate has {n} bytes, expected at most {MOST_CERTIFICATE_BYTES}: check fewer stretches"
            ))),
        }
    }

    /// Reads a certificate: checks its signature, and that what follows from other members does.
    ///
    /// # Errors
    /// [`ReceiptError::Certificate`] and [`ReceiptError::CertificateSignature`].
    pub fn open(bytes: &[u8]) -> Result<Self> {
        let wrong = |reason: String| ReceiptError::Certificate(reason);
        if bytes.len() > MOST_CERTIFICATE_BYTES {
            return Err(wrong(format!("more than {MOST_CERTIFICATE_BYTES} bytes")));
        }
        let envelope = Envelope::parse(bytes)?;
        if envelope.payload_type != PAYLOAD_TYPE {
            let found = &envelope.payload_type;
            return Err(wrong(format!(
                "payloadType is {found:?}, expected {PAYLOAD_TYPE:?}"
            )));
        }
        envelope.check_signature()?;
        let payload = envelope.payload()?;
        let front: Front = serde_json::from_slice(&payload).map_err(ReceiptError::certificate)?;
        for (name, found, expected) in [
            ("_type", &front.kind, STATEMENT_TYPE),
            ("predicateType", &front.predicate_type, PREDICATE_TYPE),
        ] {
            if found != expected {
                return Err(wrong(format!("{name} is {found:?}, expected {expected:?}")));
            }
        }
        let statement: Statement =
            serde_json::from_slice(&payload).map_err(ReceiptError::certificate)?;
        statement.predicate.check().map_err(wrong)?;
        Ok(Self {
            audit: statement.predicate,
            subjects: statement.subject,
            key: *envelope.key(),
            sha256: Sha256::of(bytes),
        })
    }

    /// Checks that the certificate is signed by this key.
    ///
    /// # Errors
    /// [`ReceiptError::CertificateKey`].
    pub fn check_key(&self, expected: &PublicKey) -> Result<()> {
        match self.key == *expected {
            true => Ok(()),
            false => Err(ReceiptError::CertificateKey {
                found: self.key.to_string(),
                expected: expected.to_string(),
            }),
        }
    }
}

/// What is looked at before the rest, which other types have in another form.
#[derive(Deserialize)]
struct Front {
    #[serde(rename = "_type")]
    kind: String,
    #[serde(rename = "predicateType")]
    predicate_type: String,
}
