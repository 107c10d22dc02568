//! The one suite: every room through its public face.

mod http;
