//! hlx-autograd
