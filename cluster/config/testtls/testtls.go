// Package testtls makes an authority and certificates for tests and for the demo on loopback.
//
// Purpose: short-lived files in PEM format, as package config reads them. They do not suit
// production: the authority's key lies beside its certificate.
//
// Thread safety: an Authority may be used by one goroutine at a time.
//
// Ownership: the caller owns the directory and deletes it.
package testtls

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity is how long certificates hold by default.
const validity = 30 * 24 * time.Hour

// Authority signs certificates.
type Authority struct {
	// CAPath is the file with the authority's certificate.
	CAPath string
	// Validity is how long the next certificates hold.
	Validity time.Duration

	directory   string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// Pair names the files of a certificate and of its key.
type Pair struct{ CertPath, KeyPath string }

// New makes an authority, and the directory if it lacks. The authority's certificate becomes the
// file ca.pem in it, its key ca.key.
func New(directory string) (*Authority, error) {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory: %w", err)
	}
	template, err := newTemplate("engine-raced test authority", validity)
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the authority's key: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("sign the authority: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parse the authority: %w", err)
	}
	a := &Authority{CAPath: filepath.Join(directory, "ca.pem"), Validity: validity,
		directory: directory, certificate: certificate, key: key}
	pair := Pair{CertPath: a.CAPath, KeyPath: filepath.Join(directory, "ca.key")}
	return a, pair.write(der, key)
}

// Issue makes a certificate for servers and clients, valid for the hosts: names or IP addresses.
// Its files are NAME.pem and NAME.key. They replace those of an earlier call with this name.
func (a *Authority) Issue(name string, hosts ...string) (Pair, error) {
	template, err := newTemplate(name, a.Validity)
	if err != nil {
		return Pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth,
		x509.ExtKeyUsageClientAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make the key of %s: %w", name, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("sign %s: %w", name, err)
	}
	base := filepath.Join(a.directory, name)
	pair := Pair{CertPath: base + ".pem", KeyPath: base + ".key"}
	return pair, pair.write(der, key)
}

func newTemplate(name string, validity time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validity)}, nil
}

func (p Pair) write(der []byte, key *ecdsa.PrivateKey) error {
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode the key: %w", err)
	}
	if err := writePEM(p.CertPath, "CERTIFICATE", der); err != nil {
		return err
	}
	return writePEM(p.KeyPath, "PRIVATE KEY", keyDER)
}

// writePEM replaces the file in one step: a reader never sees a part of it.
func writePEM(path, kind string, der []byte) error {
	temporary := path + ".new"
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(temporary, text, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return nil
}
