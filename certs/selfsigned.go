package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	// lifetime of a certificate made here, and of its authority.
	lifetime = 365 * 24 * time.Hour
	// renewBefore: one that ends sooner is replaced at the next start.
	renewBefore = lifetime / 3
	// skew is how far clocks may differ.
	skew = time.Hour
)

// Files in the certificate folder; the first two are those that servers look for.
const (
	certFile = "tls.crt"
	keyFile  = "tls.key"
	caFile   = "ca.crt"
)

// EnsureSelfSigned makes a certificate authority and, signed by it, a serving
// certificate for hosts (DNS names and IP addresses) in dir, unless dir has a valid one
// for these hosts that lasts long enough. It returns the authority's certificate, PEM.
func EnsureSelfSigned(dir string, hosts []string) (caPEM []byte, err error) {
	if len(hosts) == 0 {
		return nil, errors.New("no host given that the certificate is to be valid for")
	}
	if ca, err := load(dir, hosts, time.Now()); err == nil {
		return ca, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create certificate folder: %w", err)
	}
	files, err := generate(hosts, time.Now())
	if err != nil {
		return nil, err
	}
	// The pair is checked as a whole when it is loaded: a crash between two of these
	// leaves one that does not match, which the next start replaces.
	for _, name := range []string{caFile, keyFile, certFile} {
		if err := replace(filepath.Join(dir, name), files[name]); err != nil {
			return nil, err
		}
	}
	return files[caFile], nil
}

// load returns the authority of the pair in dir if the pair will do.
func load(dir string, hosts []string, now time.Time) ([]byte, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, certFile), filepath.Join(dir, keyFile))
	if err != nil {
		return nil, fmt.Errorf("load certificate: %w", err)
	}
	ca, err := os.ReadFile(filepath.Join(dir, caFile))
	if err != nil {
		return nil, fmt.Errorf("load certificate authority: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("the certificate authority is no certificate")
	}
	for _, host := range hosts {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now.Add(renewBefore)}); err != nil {
			return nil, fmt.Errorf("verify certificate for %s: %w", host, err)
		}
	}
	return ca, nil
}

// generate makes the files of a fresh authority and certificate.
func generate(hosts []string, now time.Time) (map[string][]byte, error) {
	authority := &x509.Certificate{
		Subject: pkix.Name{CommonName: "pvc-pruner webhook CA"}, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	serving := &x509.Certificate{
		Subject:  pkix.Name{CommonName: "pvc-pruner webhook"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			serving.IPAddresses = append(serving.IPAddresses, ip)
		} else {
			serving.DNSNames = append(serving.DNSNames, host)
		}
	}
	caCert, caKey, err := sign(authority, authority, nil, now)
	if err != nil {
		return nil, fmt.Errorf("make certificate authority: %w", err)
	}
	cert, key, err := sign(serving, authority, caKey, now)
	if err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return map[string][]byte{
		caFile:   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caCert}),
		certFile: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		keyFile:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}, nil
}

// sign makes a key for template and signs it with the parent's, or with its own if that is nil.
func sign(template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey, now time.Time) ([]byte, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, fmt.Errorf("draw serial number: %w", err)
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = now.Add(-skew), now.Add(lifetime)
	if parentKey == nil {
		parentKey = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, nil, fmt.Errorf("sign: %w", err)
	}
	return der, key, nil
}

// replace writes a file that is seen whole or not at all.
func replace(path string, data []byte) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("create certificate file: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("write certificate file: %w", err)
	}
	if err = os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("replace certificate file: %w", err)
	}
	return nil
}
