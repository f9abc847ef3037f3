//! What pools are made of.

/// Devices of each group, and spares.
pub struct Shape {
    /// How many members each group has: 1, or a mirror.
    pub groups: &'static [usize],
    pub spares: usize,
}

const fn shape(groups: &'static [usize], spares: usize) -> Shape {
    Shape { groups, spares }
}

/// Seeds take turns.
pub const SHAPES: &[Shape] = &[
    shape(&[1], 0),
    shape(&[2], 0),
    shape(&[1, 1], 0),
    shape(&[2, 2], 1),
    shape(&[3], 0),
    shape(&[1, 2], 1),
    shape(&[2], 1),
];
