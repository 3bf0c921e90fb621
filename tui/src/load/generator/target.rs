//! Where the requests go, and whether they may.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Uri,
    uri::{Authority, PathAndQuery, Scheme},
};
use hyper::body::Bytes;
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, ServerName, pem::PemObject as _},
    },
};

use crate::load::secrets::url_without_secrets;

/// A request, and where it goes.
pub struct Target {
    /// As it may be kept and shown: what looks like a secret is taken out.
    pub url: String,
    pub authority: String,
    pub addresses: Box<[SocketAddr]>,
    pub method: Method,
    pub path: Uri,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub tls: Option<Tls>,
}

/// What a secure connection takes.
pub struct Tls {
    pub connector: TlsConnector,
    pub name: ServerName<'static>,
}

/// The request as it was typed.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub url: String,
    pub method: String,
    /// `Name: value`.
    pub headers: Vec<String>,
    pub body: Vec<u8>,
    /// Certificates to trust instead of the system's.
    pub ca: Option<PathBuf>,
    /// Whether hosts other than this one are allowed.
    pub any_host: bool,
}

/// Why requests cannot go there. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error("`{0}` is no address of a service: say http://HOST:PORT/PATH, or https://")]
    NotAUrl(String),
    #[error(
        "`{0}` has a user or a password in it, which would be kept: give them with --header 'Authorization: ..'"
    )]
    Credentials(String),
    #[error(
        "`{url}` names no port that there is: say one from 1 to 65535 after the colon, or none"
    )]
    NotAPort { url: String },
    #[error("--ca is for https://: over http:// no certificate is looked at")]
    CaWithoutTls,
    #[error("`{0}` is no method of HTTP")]
    NotAMethod(String),
    #[error("`{0}` is no header: say 'Name: value'")]
    NotAHeader(String),
    #[error("cannot find the address of {host}: {source}")]
    Unresolved { host: String, source: io::Error },
    #[error(
        "{host} is {address}, which is not this host: load on somebody else's service is an attack. \
         If it is yours, say --i-own-this-host"
    )]
    OtherHost { host: String, address: SocketAddr },
    #[error("cannot read certificates from {}: {problem}", path.display())]
    BadCa { path: PathBuf, problem: String },
}

impl Wanted {
    /// Checks everything that can be checked without sending.
    ///
    /// # Errors
    ///
    /// [`TargetError`].
    pub async fn resolve(&self) -> Result<Target, TargetError> {
        let not_a_url = || TargetError::NotAUrl(url_without_secrets(&self.url));
        let uri: Uri = self.url.parse().map_err(|_| not_a_url())?;
        let authority = uri.authority().ok_or_else(not_a_url)?;
        if authority.as_str().contains('@') {
            // Not repeated: the text goes to a terminal or a log.
            return Err(TargetError::Credentials(authority.host().to_owned()));
        }
        let secure = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err(not_a_url()),
        };
        if self.ca.is_some() && !secure {
            return Err(TargetError::CaWithoutTls);
        }
        let usual = if secure { 443 } else { 80 };
        let port = port(authority, usual).ok_or_else(|| TargetError::NotAPort {
            url: url_without_secrets(&self.url),
        })?;
        let host = authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']');
        let addresses = self.addresses(host, port).await?;
        let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        Ok(Target {
            url: url_without_secrets(&self.url),
            authority: authority.as_str().to_owned(),
            addresses,
            method: Method::from_bytes(self.method.to_ascii_uppercase().as_bytes())
                .map_err(|_| TargetError::NotAMethod(self.method.clone()))?,
            path: path.parse().map_err(|_| not_a_url())?,
            headers: self.headers()?,
            body: Bytes::from(self.body.clone()),
            tls: if secure {
                Some(
                    self.tls(host)
                        .map_err(|error| error.unwrap_or_else(not_a_url))?,
                )
            } else {
                None
            },
        })
    }

    async fn addresses(&self, host: &str, port: u16) -> Result<Box<[SocketAddr]>, TargetError> {
        let unresolved = |source| TargetError::Unresolved {
            host: host.to_owned(),
            source,
        };
        let found = tokio::net::lookup_host((host, port)).await;
        let addresses: Box<[SocketAddr]> = found.map_err(unresolved)?.collect();
        // Every one of them: a name may mean this host and another.
        let elsewhere = addresses
            .iter()
            .find(|address| !self.any_host && !address.ip().to_canonical().is_loopback());
        if let Some(address) = elsewhere {
            return Err(TargetError::OtherHost {
                host: host.to_owned(),
                address: *address,
            });
        }
        if addresses.is_empty() {
            return Err(unresolved(io::Error::other("it has none")));
        }
        Ok(addresses)
    }

    fn headers(&self) -> Result<HeaderMap, TargetError> {
        let mut headers = HeaderMap::new();
        for typed in &self.headers {
            // Without its value, which may be a secret.
            let wrong = |name: &str| TargetError::NotAHeader(name.to_owned());
            let (name, value) = typed.split_once(':').ok_or_else(|| wrong(typed))?;
            let parsed = HeaderName::from_bytes(name.trim().as_bytes());
            let value = HeaderValue::from_str(value.trim());
            let (Ok(parsed), Ok(value)) = (parsed, value) else {
                return Err(wrong(name));
            };
            headers.append(parsed, value);
        }
        Ok(headers)
    }

    /// `None` as an error: the host is no name that a certificate can have.
    fn tls(&self, host: &str) -> Result<Tls, Option<TargetError>> {
        let mut roots = RootCertStore::empty();
        match &self.ca {
            Some(path) => {
                for certificate in certificates(path)? {
                    roots.add(certificate).map_err(|error| {
                        Some(TargetError::BadCa {
                            path: path.clone(),
                            problem: error.to_string(),
                        })
                    })?;
                }
            }
            None => {
                // One that cannot be read is not trusted; the handshake then says so.
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(host.to_owned()).map_err(|_| None)?;
        Ok(Tls {
            connector: TlsConnector::from(Arc::new(config)),
            name,
        })
    }
}

/// The port that an address names, or the usual one. `None`: what it names is no port, which must not become the usual one.
fn port(authority: &Authority, usual: u16) -> Option<u16> {
    let text = authority.as_str();
    // The colons inside of brackets belong to the address.
    let after = text.rfind(']').map_or(0, |bracket| bracket + 1);
    match text[after..].rsplit_once(':') {
        None => Some(usual),
        Some((_, port)) => port.parse().ok().filter(|port| *port > 0),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TargetError> {
    let bad = |problem: String| TargetError::BadCa {
        path: path.to_owned(),
        problem,
    };
    let read = CertificateDer::pem_file_iter(path).map_err(|error| bad(error.to_string()))?;
    let certificates: Vec<_> = read
        .collect::<Result<_, _>>()
        .map_err(|error| bad(error.to_string()))?;
    if certificates.is_empty() {
        return Err(bad("there is none in it".to_owned()));
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(url: &str) -> Wanted {
        Wanted {
            url: url.to_owned(),
            method: "get".to_owned(),
            headers: vec!["X-One: 1".to_owned()],
            body: Vec::new(),
            ca: None,
            any_host: false,
        }
    }

    async fn problem(wanted: Wanted) -> String {
        match wanted.resolve().await {
            Ok(_) => "none".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[tokio::test]
    async fn this_host_alone_unless_it_is_said_to_be_ours() {
        for own in [
            "http://127.0.0.1:1/a?b=c",
            "http://localhost:80",
            "http://[::1]:9",
            "http://127.9.9.9",
        ] {
            assert_eq!(problem(wanted(own)).await, "none", "{own}");
        }
        for other in [
            "http://192.0.2.1:1/",
            "http://0.0.0.0:1/",
            "http://[2001:db8::1]:80/",
        ] {
            let said = problem(wanted(other)).await;
            assert!(said.contains("--i-own-this-host"), "{other}: {said}");
            let owned = Wanted {
                any_host: true,
                ..wanted(other)
            };
            assert_eq!(problem(owned).await, "none", "{other}");
        }
    }

    #[tokio::test]
    async fn what_is_wrong_is_said_without_repeating_secrets() {
        for (wrong, part) in [
            ("127.0.0.1:1", "say http://"),
            ("ftp://127.0.0.1/", "say http://"),
            ("http://", "say http://"),
            ("http://me:geheim@127.0.0.1/", "--header"),
            ("http://127.0.0.1:99999/?token=geheim", "no port"),
            ("http://127.0.0.1:/", "no port"),
            ("http://127.0.0.1:0/", "no port"),
            ("http://localhost:80x/", "no port"),
            ("http://[::1]:99999/", "no port"),
            ("http://127.0.0.1/ ?token=geheim", "say http://"),
        ] {
            let said = problem(wanted(wrong)).await;
            assert!(
                said.contains(part) && !said.contains("geheim"),
                "{wrong}: {said}"
            );
        }
        let headers = vec!["Authorization geheim\n: x".to_owned()];
        let said = problem(Wanted {
            headers,
            ..wanted("http://127.0.0.1")
        })
        .await;
        assert!(said.contains("is no header"), "{said}");
        let ca = Some(PathBuf::from("ca.pem"));
        let said = problem(Wanted {
            ca,
            ..wanted("http://127.0.0.1")
        })
        .await;
        assert!(said.contains("https://"), "{said}");
        let method = "G T".to_owned();
        let said = problem(Wanted {
            method,
            ..wanted("http://127.0.0.1")
        })
        .await;
        assert!(said.contains("no method"), "{said}");
    }
}
