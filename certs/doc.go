// Package certs is about the certificate that the webhook serves: making one where
// nobody else does, telling the API server whom to trust, and knowing whether it does.
//
// Invariants:
//
//   - Key and certificate are replaced so that whoever reads them in between sees the
//     old pair or the new one.
//   - The key of a certificate authority made here is thrown away once it has signed:
//     nobody can sign anything else with it.
//   - Ready means that the API server will accept the certificate that is served now,
//     not merely that there is one.
//
// Where certificates come as files from elsewhere, only Ready is used.
package certs
