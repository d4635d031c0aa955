//! What operands of products are to a step.

/// What an operand is to a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An activation on its way forward.
    Signal,
    /// What a signal is multiplied with going forward, and an incoming gradient going back to the signal.
    Weight,
    /// A gradient that comes in.
    Gradient,
    /// What was saved of the forward pass, and is multiplied with an incoming gradient.
    Saved,
    /// An operand of a recurrent layer's step or of its derivatives, whose products are chains of floats in every arithmetic.
    TimeStep,
}
