//! What pools are made of.

/// Devices of each group, and spares.
pub struct Shape {
    /// How many members each group has, and how many of them are parity.
    pub groups: &'static [(usize, usize)],
    pub spares: usize,
}

const fn shape(groups: &'static [(usize, usize)], spares: usize) -> Shape {
    Shape { groups, spares }
}

/// Seeds take turns.
pub const SHAPES: &[Shape] = &[
    shape(&[(1, 0)], 0),
    shape(&[(2, 0)], 0),
    shape(&[(3, 1)], 0),
    shape(&[(1, 0), (1, 0)], 0),
    shape(&[(2, 0), (2, 0)], 1),
    shape(&[(4, 2)], 1),
    shape(&[(3, 0)], 0),
    shape(&[(1, 0), (2, 0)], 1),
    shape(&[(5, 1)], 1),
    shape(&[(2, 0)], 1),
    shape(&[(2, 0), (3, 1)], 0),
];
