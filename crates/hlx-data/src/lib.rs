//! Data sets and the data loader of HLX: batches whose order and bits depend on a seed alone.
//!
//! A [`Dataset`] has items by index. A [`DataLoader`] draws the order of each epoch from a counter,
//! applies a [`Transform`] to each item, stacks items to batches on worker threads, and uploads them
//! ahead of their use. Nothing depends on the number of workers: an augmentation is keyed by seed,
//! epoch and sample ([`SampleKey`]).
//!
//! ```
//! use hlx_core::Device;
//! use hlx_data::{Cursor, DataLoader, ImageSet, ImageTransform, LoaderOptions};
//!
//! let device = Device::open("cpu")?;
//! let digits = ImageSet::drawn_digits(100, 7)?;
//! let options = LoaderOptions { batch_size: 32, shuffle: true, workers: 2, ..Default::default() };
//! let transform = ImageTransform::new(&[0.5], &[0.5])?;
//! let loader = DataLoader::new(digits, options)?.with_transform(transform);
//! for batch in loader.batches(Cursor::start_of(0))?.to_device(&device, 1) {
//!     let (images, labels) = batch?.data;
//!     assert_eq!(images.shape()[1..], [1, 28, 28]);
//!     assert_eq!(images.shape()[0], labels.shape()[0]);
//! }
//! # Ok::<(), hlx_data::DataError>(())
//! ```

mod ascii_pairs;
mod cifar;
mod confusion;
mod dataset;
mod digits;
mod error;
mod idx;
mod image_set;
mod image_transform;
mod item;
mod loader;
mod misread;
pub mod random;
mod transform;

pub use ascii_pairs::{AsciiPair, ascii_pairs};
pub use confusion::ConfusionMatrix;
pub use dataset::{Dataset, Subset};
pub use error::{BoxError, DataError};
pub use idx::{IdxArray, IdxValues, parse_idx, read_idx, write_idx};
pub use image_set::ImageSet;
pub use image_transform::{Augment, ImageTransform};
pub use item::{HostArray, Item, ToDevice};
pub use loader::{
    Batch, Batches, Cursor, DataLoader, DeviceBatches, LastBatch, LoaderOptions, Ordered, Outcome,
};
pub use misread::{ImageReport, Misread, misread_png};
pub use random::SampleKey;
pub use transform::{Plain, Transform};

/// The result of an operation on data.
pub type Result<T, E = DataError> = std::result::Result<T, E>;
