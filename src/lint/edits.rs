//! Byte edits that change one value and leave comments, order and style alone.
//! Each returns `None` where the way the file is written leaves no safe edit.
