//! What makes the receipts of a server: its key, its chain, and the folder that they are written to.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use hlx_core::files::write_atomically;
use hlx_receipt::{Body, Chain, Information, PublicKey, Receipt, SigningKey};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Whose receipts a server gives, and where they are written.
#[derive(Clone, Debug)]
pub struct ReceiptSettings {
    /// The key that signs.
    pub key: SigningKey,
    /// A folder that gets the receipt of every answer.
    pub folder: Option<PathBuf>,
}

/// The receipts of a server.
pub(crate) struct Keeper {
    public: PublicKey,
    chain: Mutex<Chain>,
    folder: Option<PathBuf>,
    /// Room for those whose answers are recomputed at the same time.
    checks: Semaphore,
}

/// Answers that are recomputed at the same time; others wait.
const MOST_CHECKS: usize = 4;

impl Keeper {
    /// Begins a chain.
    pub fn new(settings: &ReceiptSettings) -> anyhow::Result<Self> {
        Ok(Self {
            public: settings.key.public(),
            chain: Mutex::new(Chain::new(settings.key.clone())?),
            folder: settings.folder.clone(),
            checks: Semaphore::new(MOST_CHECKS),
        })
    }

    /// Waits for room to recompute an answer. The engine waits for the digests of its logits, so that each must have a
    /// thread.
    pub async fn room(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.checks.acquire().await.ok()
    }

    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Whether every answer gets one.
    pub fn is_for_all(&self) -> bool {
        self.folder.is_some()
    }

    /// Signs what is said of an answer; the receipt is on the disk, if it is to be, when it is returned.
    pub fn add(&self, body: Body, information: Information) -> anyhow::Result<Receipt> {
        let mut chain = self.chain.lock().unwrap_or_else(PoisonError::into_inner);
        chain.add(body, information, |receipt| self.store(receipt))
    }

    /// Writes a receipt, named by its chain and its number.
    fn store(&self, receipt: &Receipt) -> anyhow::Result<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let link = &receipt.link;
        let name = format!("{}-{:09}.json", link.chain, link.sequence.0);
        let path = folder.join(name);
        write_atomically(&path, &receipt.to_bytes()?)
            .map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
    }
}
