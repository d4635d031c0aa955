//! Samples on the host, how they are stacked to a batch, and how a batch is uploaded.

use hlx_autograd::Tensor;
use hlx_core::{Device, Element};

use crate::{DataError, Result};

/// An array in host memory, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct HostArray<T> {
    shape: Vec<usize>,
    values: Vec<T>,
}

impl<T> HostArray<T> {
    /// Takes elements in row-major order.
    ///
    /// # Errors
    /// [`DataError::Argument`] if the shape's product is not the number of elements.
    pub fn new(shape: &[usize], values: Vec<T>) -> Result<Self> {
        if shape.iter().product::<usize>() == values.len() {
            let shape = shape.to_vec();
            return Ok(Self { shape, values });
        }
        let found = values.len();
        let reason = format!("the shape is {shape:?}, and there are {found} values");
        Err(DataError::argument("host_array", reason))
    }

    /// The extents, outermost first; empty for a number.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The elements in row-major order.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// The elements, to be changed in place.
    pub fn values_mut(&mut self) -> &mut [T] {
        &mut self.values
    }

    /// Gives the elements away.
    pub fn into_values(self) -> Vec<T> {
        self.values
    }
}

/// What a loader can stack to batches: arrays of one shape, numbers, and tuples of them.
pub trait Item: Send + Sized + 'static {
    /// Many of them, such as an array with one more dimension in front.
    type Batch: Send + 'static;

    /// Stacks items along a new first dimension, after `n_empty` rows of zeros.
    ///
    /// # Errors
    /// [`DataError::Argument`] if the items differ in shape, or there is none whose shape the rows
    /// of zeros could have.
    fn stack(items: Vec<Self>, n_empty: usize) -> Result<Self::Batch>;
}

/// What can be uploaded: an array, and tuples of arrays.
pub trait ToDevice {
    /// The uploaded form: a [`Tensor`], or a tuple of them.
    type OnDevice;

    /// Uploads without waiting for the device.
    ///
    /// # Errors
    /// What the device reports.
    fn to_device(&self, device: &Device) -> Result<Self::OnDevice>;
}

impl<T: Element> Item for HostArray<T> {
    type Batch = Self;

    fn stack(items: Vec<Self>, n_empty: usize) -> Result<Self> {
        let Some(first) = items.first() else {
            let reason = "there is no item whose shape a batch could have";
            return Err(DataError::argument("stack", reason));
        };
        let (rows, inner) = (n_empty + items.len(), first.shape.clone());
        if let Some(other) = items.iter().find(|item| item.shape != inner) {
            let found = &other.shape;
            let reason = format!("an item has shape {found:?}, the first one {inner:?}");
            return Err(DataError::argument("stack", reason));
        }
        let mut values = Vec::with_capacity(rows * first.values.len());
        values.resize(n_empty * first.values.len(), bytemuck::Zeroable::zeroed());
        items
            .iter()
            .for_each(|item| values.extend_from_slice(&item.values));
        let shape = [&[rows], inner.as_slice()].concat();
        Ok(Self { shape, values })
    }
}

impl<T: Element> ToDevice for HostArray<T> {
    type OnDevice = Tensor;

    fn to_device(&self, device: &Device) -> Result<Tensor> {
        let buffer = device.buffer_of(&self.values)?;
        Ok(Tensor::from_buffer(device, buffer, &self.shape)?)
    }
}

macro_rules! numbers {
    ($($number:ty),+) => {
        $(impl Item for $number {
            type Batch = HostArray<$number>;

            fn stack(items: Vec<Self>, n_empty: usize) -> Result<Self::Batch> {
                let mut values = vec![<$number>::default(); n_empty];
                values.extend(items);
                HostArray::new(&[values.len()], values)
            }
        })+
    };
}
numbers!(f32, i32, u32, i8, u8);

macro_rules! tuples {
    ($(($($part:ident $place:tt),+))+) => {
        $(
            impl<$($part: Item),+> Item for ($($part,)+) {
                type Batch = ($($part::Batch,)+);

                #[allow(non_snake_case)] // A type parameter and the list of its values.
                fn stack(items: Vec<Self>, n_empty: usize) -> Result<Self::Batch> {
                    $(let mut $part = Vec::with_capacity(items.len());)+
                    for item in items {
                        $($part.push(item.$place);)+
                    }
                    Ok(($($part::stack($part, n_empty)?,)+))
                }
            }

            impl<$($part: ToDevice),+> ToDevice for ($($part,)+) {
                type OnDevice = ($($part::OnDevice,)+);

                fn to_device(&self, device: &Device) -> Result<Self::OnDevice> {
                    Ok(($(self.$place.to_device(device)?,)+))
                }
            }
        )+
    };
}
tuples! { (A 0) (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3) }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_are_stacked_part_by_part_behind_rows_of_zeros() -> Result<()> {
        let array = |value: f32| HostArray::new(&[2], vec![value, -value]);
        let items = vec![(array(1.0)?, 7_u32), (array(2.0)?, 9)];
        let (arrays, labels) = Item::stack(items, 1)?;
        assert_eq!(arrays.shape(), [3, 2]);
        assert_eq!(arrays.values(), [0.0, 0.0, 1.0, -1.0, 2.0, -2.0]);
        assert_eq!(labels, HostArray::new(&[3], vec![0, 7, 9])?);
        let device = hlx_core::testing::cpu()?;
        let (x, y) = (arrays, labels).to_device(&device)?;
        assert_eq!((x.shape(), y.shape()), (&[3, 2][..], &[3][..]));
        assert_eq!(y.to_vec::<u32>()?, [0, 7, 9]);
        Ok(())
    }

    #[test]
    fn shapes_that_differ_are_refused() -> Result<()> {
        let items = vec![
            HostArray::new(&[2], vec![1_u8, 2])?,
            HostArray::new(&[1], vec![3])?,
        ];
        let error = HostArray::stack(items, 0).expect_err("two shapes");
        let expected = "stack: an item has shape [1], the first one [2]";
        assert_eq!(error.to_string(), expected);
        let none = HostArray::<f32>::stack(Vec::new(), 2).expect_err("no item");
        assert!(none.to_string().starts_with("stack: there is no item"));
        let error = HostArray::new(&[2, 2], vec![0_u8]).expect_err("too few");
        let expected = "host_array: the shape is [2, 2], and there are 1 values";
        assert_eq!(error.to_string(), expected);
        Ok(())
    }
}
