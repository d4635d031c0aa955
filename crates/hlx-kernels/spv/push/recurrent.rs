//! Push constants of the modules of recurrent.

blocks! {
    gru_backward, gru_forward, lstm_backward, lstm_forward {
        batch: u32, time: u32, width: u32, position: u32, previous: u32
    }
    product_16x16, product_16x64 { m: u32, n: u32, k: u32 }
}
