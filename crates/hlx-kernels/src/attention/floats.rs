//! Attention over floats: by kernels of rows, or by those that store numbers of pairs.

use hlx_core::Buffer;

use super::operands::AttentionGradients;
use super::pass::{RangedPass, Saved};
use super::plan::{OF_BACKWARD, key_heads_at_a_time, key_heads_of_forward};
use super::rows::{Kind, RowOperands};
use super::stored::Stored;
use crate::Result;
use crate::error::check_len;

impl RangedPass<'_> {
    /// Computes `o` and `stats`; overwrites both.
    pub fn forward(&self, [o, stats]: [&Buffer; 2]) -> Result<()> {
        const NAME: &str = "ranged_attention_forward";
        let of = &self.placed.attention;
        check_len(NAME, "o", o, of.output_len())?;
        check_len(NAME, "stats", stats, [2, of.all_queries()])?;
        match key_heads_of_forward(self.device, &self.placed) {
            Some(key_heads) => Stored::new(self, key_heads).forward([o, stats]),
            None => self.rows(self.operands.heads[0].buffer).forward([o, stats]),
        }
    }

    /// Computes the gradients, contiguous ones.
    pub fn backward(&self, saved: &Saved<'_>, gradients: &AttentionGradients<'_>) -> Result<()> {
        const NAME: &str = "ranged_attention_backward";
        let of = &self.placed.attention;
        let [dq, dk, dv] = gradients.heads.map(|x| x.buffer);
        check_len(NAME, "dq", dq, of.output_len())?;
        check_len(NAME, "dk", dk, of.key_len())?;
        check_len(NAME, "dv", dv, of.key_len())?;
        self.begin_backward(NAME, saved)?;
        if let Some(key_heads) = key_heads_at_a_time(self.device, &self.placed, OF_BACKWARD) {
            return Stored::new(self, key_heads).backward(saved, [dq, dk, dv]);
        }
        let (rows, places) = (self.rows(saved.output.d_o), of.contiguous());
        rows.query(saved, dq, &places)?;
        rows.key_value(saved, [dk, dv], &places)
    }

    fn rows<'a>(&'a self, d_o: &'a Buffer) -> RowOperands<'a> {
        let [q, k, v] = self.words();
        RowOperands {
            device: self.device,
            kind: Kind::Floats,
            words: [q, k, v, d_o, q],
            ranges: self.ranges,
            counter: self.operands.counter,
            pages: None,
            placed: self.placed,
        }
    }
}
