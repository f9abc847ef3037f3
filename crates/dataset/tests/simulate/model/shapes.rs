//! The shapes of pools.

/// Devices of each group, and spares.
pub struct Shape {
    /// The number of members of each group, and the number of them that are parity.
    pub groups: &'static [(usize, usize)],
    pub spares: usize,
    /// The number of members of the group for logs; 0: there is none.
    pub logs: usize,
}

const fn shape(groups: &'static [(usize, usize)], spares: usize) -> Shape {
    Shape {
        groups,
        spares,
        logs: 0,
    }
}

const fn with_logs(groups: &'static [(usize, usize)], logs: usize) -> Shape {
    Shape {
        logs,
        ..shape(groups, 0)
    }
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
    with_logs(&[(1, 0)], 1),
    with_logs(&[(2, 0)], 2),
    with_logs(&[(3, 1)], 1),
    shape(&[(3, 2)], 0),
    shape(&[(6, 2)], 1),
];
