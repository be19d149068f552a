// Package signature is the proof that a webhook comes from Ajo: the headers that a sender adds, and
// the one check that a receiver makes.
//
// The worker that delivers, `ajo listen` and the Go client all call it, so what is signed and what
// is verified cannot part. It needs the standard library only, as it goes into tenants' programs.
// (Specification, "Outbound event", 5; decisions, "Outbound deliveries".)
package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Header is the specification's header: "t=<unix seconds>,v1=<hex>", with one v1 for each secret
// while one is replaced.
const Header = "X-Service-Signature"

// The headers of Standard Webhooks, which carry the same proof.
const (
	standardID        = "webhook-id"
	standardTime      = "webhook-timestamp"
	standardSignature = "webhook-signature"
)

// Why a webhook is refused.
var (
	ErrNoSecret = errors.New("no webhook secret to verify with")
	ErrMissing  = errors.New("the " + Header + " header is missing or not of the form t=…,v1=…")
	ErrTime     = errors.New("the webhook's timestamp is too far from this machine's time")
	ErrMismatch = errors.New("the webhook's signature does not match its body")
)

// Sign adds the headers for a sending at the time at. During a rotation each has a signature by
// each secret, the new one first: "t=…,v1=<new>,v1=<old>" and "v1,<new> v1,<old>". Without a secret
// it adds none.
func Sign(h http.Header, secrets []string, messageID string, at time.Time, body []byte) {
	if len(secrets) == 0 {
		return
	}
	t := strconv.FormatInt(at.Unix(), 10)
	spec, standard := []string{"t=" + t}, []string{}
	for _, s := range secrets {
		spec = append(spec, "v1="+hex.EncodeToString(digest([]byte(s), body, t, ".")))
		standard = append(standard, "v1,"+base64.StdEncoding.EncodeToString(digest(standardKey(s), body, messageID, ".", t, ".")))
	}
	h.Set(Header, strings.Join(spec, ","))
	h.Set(standardID, messageID)
	h.Set(standardTime, t)
	h.Set(standardSignature, strings.Join(standard, " "))
}

// Verify checks the value of [Header] over the raw body: its time is within the tolerance of now,
// either way, and one of its signatures is by the secret. Its errors are those above. Unknown parts
// of the header are passed over, a second t is not.
func Verify(header string, body []byte, secret string, now time.Time, tolerance time.Duration) error {
	if secret == "" {
		return ErrNoSecret // anybody can sign with an empty key
	}
	var t string
	var signatures []string
	for part := range strings.SplitSeq(header, ",") {
		switch name, value, _ := strings.Cut(part, "="); {
		case name == "t" && t != "":
			return ErrMissing
		case name == "t":
			t = value
		case name == "v1":
			signatures = append(signatures, value)
		}
	}
	seconds, err := strconv.ParseInt(t, 10, 64)
	if err != nil || len(signatures) == 0 {
		return ErrMissing
	}
	if away := now.Sub(time.Unix(seconds, 0)).Truncate(time.Second); away > tolerance || away < -tolerance {
		return ErrTime
	}
	want := []byte(hex.EncodeToString(digest([]byte(secret), body, t, ".")))
	for _, s := range signatures {
		if hmac.Equal([]byte(s), want) {
			return nil
		}
	}
	return ErrMismatch
}

// standardKey is the key of the Standard Webhooks signature: the base64 decoding of the secret's
// text. That is what the Standard Webhooks libraries make of the text that they are given, with or
// without "whsec_" before it, so the tenant gives them the same 64 characters as are used here (any
// such text is base64 too). The specification's own signature is keyed with the text's bytes as
// they are.
func standardKey(secret string) []byte {
	key, err := base64.StdEncoding.DecodeString(secret)
	if err != nil {
		return []byte(secret)
	}
	return key
}

// digest is the HMAC-SHA256 of the texts, one behind the other, and then the body.
func digest(key, body []byte, before ...string) []byte {
	m := hmac.New(sha256.New, key)
	for _, s := range before {
		_, _ = m.Write([]byte(s))
	}
	_, _ = m.Write(body)
	return m.Sum(nil)
}

// Approval is the proof that an answer about a payout is the tenant's, and is the answer to this
// very question: hex of the HMAC, by the webhook secret, over the decision ("approve" or "reject"),
// the payout's reference and sum, and the question's nonce.
func Approval(secret, decision, merchantTxRef, amount, nonce string) string {
	return hex.EncodeToString(digest([]byte(secret), nil, "payout.approval\n", decision, "\n", merchantTxRef, "\n", amount, "\n", nonce))
}

// VerifyApproval checks such a proof. [ErrNoSecret], [ErrMismatch].
func VerifyApproval(proof, secret, decision, merchantTxRef, amount, nonce string) error {
	switch {
	case secret == "":
		return ErrNoSecret
	case !hmac.Equal([]byte(proof), []byte(Approval(secret, decision, merchantTxRef, amount, nonce))):
		return ErrMismatch
	}
	return nil
}
